// Command badserve is a completion server that is wrong in one chosen way. The
// whole-program tests start it as a framework; it knows nothing of sotabuild.
//
// Its tokens come at a fixed pace, so a healthy run is exact in its counts.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// modes lists every way to be wrong, with what it does.
var modes = [][2]string{
	{"none", "nothing is wrong"},
	{"die", "exits 3 before it listens"},
	{"oom", "prints CUDA out of memory and exits 1 before it listens"},
	{"die-midway", "exits 4 in the middle of the third request"},
	{"die-late", "cuts the third request and exits 4 a moment later"},
	{"hang", "never listens"},
	{"unhealthy", "listens and answers /health with 503 for ever"},
	{"deaf", "ignores SIGTERM, as some servers do for minutes"},
	{"orphans", "ignores SIGTERM and leaves children in sessions of their own"},
	{"http500", "answers every completion with 500"},
	{"stream-error", "sends an error object after two tokens, then [DONE]"},
	{"no-done", "ends streams without [DONE]"},
	{"no-usage", "sends no usage"},
	{"lies-output", "claims twice the tokens it sent"},
	{"lies-prompt", "claims one prompt token too few"},
	{"short", "stops one token early"},
	{"cut", "cuts the connection after two tokens"},
	{"wrong-model", "lists another model"},
	{"empty", "answers with no token"},
}

type server struct {
	mode  string
	model string
	pace  time.Duration
	slots chan struct{}
	seen  atomic.Int64
}

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8000, "port to listen on (default: 8000)")
	flag.String("model", "", "what to serve; nothing is read")
	model := flag.String("served-model-name", "model", "name of the model")
	mode := flag.String("mode", "none", "how to be wrong")
	pace := flag.Int("pace-us", 500, "microseconds between tokens")
	slots := flag.Int("slots", 8, "requests at a time")
	child := flag.Bool("child", false, "be a child that ignores SIGTERM")
	flag.Usage = usage
	flag.Parse()
	if *child {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		forever()
	}
	if !slices.ContainsFunc(modes, func(m [2]string) bool { return m[0] == *mode }) {
		fmt.Fprintf(os.Stderr, "badserve: unknown mode %q\n", *mode)
		os.Exit(2)
	}
	s := &server{mode: *mode, model: *model, pace: time.Duration(*pace) * time.Microsecond, slots: make(chan struct{}, max(1, *slots))}
	s.before()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", *host, *port))
	if err != nil {
		fmt.Fprintln(os.Stderr, "badserve:", err)
		os.Exit(1)
	}
	http.HandleFunc("GET /health", s.health)
	http.HandleFunc("GET /v1/models", s.models)
	http.HandleFunc("POST /v1/completions", s.completions)
	fmt.Fprintln(os.Stderr, "badserve:", http.Serve(l, nil))
	os.Exit(1)
}

// usage is a help text in the common form, so that flags can be checked.
func usage() {
	fmt.Print(`usage: badserve [options]

options:
  --help                     show this help and exit
  --host HOST                address to listen on (default: 127.0.0.1)
  --port N                   port to listen on (default: 8000)
  --model PATH               what to serve; nothing is read
  --served-model-name NAME   name of the model (default: model)
  --pace-us N                microseconds between tokens (default: 500)
  --slots N                  requests at a time (default: 8)
  --mode {`)
	for i, m := range modes {
		if i > 0 {
			fmt.Print(",")
		}
		fmt.Print(m[0])
	}
	fmt.Print("}\n                             how to be wrong (default: none)\n")
}

// before does what happens before the port is open.
func (s *server) before() {
	switch s.mode {
	case "die":
		fmt.Fprintln(os.Stderr, "badserve: cannot load the model")
		os.Exit(3)
	case "oom":
		fmt.Fprintln(os.Stderr, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.")
		os.Exit(1)
	case "hang":
		forever()
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "orphans":
		signal.Ignore(syscall.SIGTERM)
		for range 2 {
			cmd := exec.Command(os.Args[0], "-child")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				fmt.Fprintln(os.Stderr, "badserve:", err)
				os.Exit(1)
			}
			fmt.Fprintln(os.Stderr, "badserve: left behind:", cmd.Process.Pid)
		}
	}
}

// forever waits in a way that the runtime does not take for a deadlock.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	if s.mode == "unhealthy" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, `{"status":"ok"}`)
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	name := s.model
	if s.mode == "wrong-model" {
		name = "another-model"
	}
	fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"}]}`+"\n", name)
}

type request struct {
	Prompt    []int `json:"prompt"`
	MaxTokens int   `json:"max_tokens"`
}

func (s *server) completions(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, `{"error":{"message":"bad request","code":400}}`, http.StatusBadRequest)
		return
	}
	n := s.seen.Add(1)
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	if s.mode == "http500" {
		http.Error(w, `{"error":{"message":"engine is dead","code":500}}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
	tokens := req.MaxTokens
	switch s.mode {
	case "short":
		tokens--
	case "empty":
		tokens = 0
	}
	for i := range tokens {
		time.Sleep(s.pace)
		switch {
		case s.mode == "die-midway" && n == 3 && i == 1:
			os.Exit(4)
		case s.mode == "die-late" && n == 3 && i == 1:
			time.AfterFunc(100*time.Millisecond, func() { os.Exit(4) })
			panic(http.ErrAbortHandler)
		case s.mode == "stream-error" && i == 2:
			send(`{"error":{"message":"EngineCore died","type":"server_error","code":500}}`)
			send("[DONE]")
			return
		case s.mode == "cut" && i == 2:
			panic(http.ErrAbortHandler)
		}
		send(`{"choices":[{"index":0,"text":%q,"finish_reason":null}]}`, " t")
	}
	send(`{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`)
	s.end(send, len(req.Prompt), tokens)
}

// end sends usage and [DONE], or what the mode makes of them.
func (s *server) end(send func(string, ...any), prompt, tokens int) {
	switch s.mode {
	case "lies-output":
		tokens *= 2
	case "lies-prompt":
		prompt--
	}
	if s.mode != "no-usage" {
		send(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}}`, prompt, tokens, prompt+tokens)
	}
	if s.mode != "no-done" {
		send("[DONE]")
	}
}
