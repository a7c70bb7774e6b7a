package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"
)

// stream is one answer that waits for its events.
type stream struct {
	conn net.Conn
	id   int // the prompt's first token
}

// allAreHere is what the server says when it begins to write soon.
const allAreHere = "all streams are here"

// serveTicks is the server: it waits for so many streams, then writes rounds of
// events, one to each stream in turn, evenly spread. GET /log has the times of
// all writes, stream by stream; GET /reached the events a second that it wrote.
func serveTicks(args []string) error {
	if len(args) != 3 {
		return errors.New("the server takes STREAMS ROUNDS PER_SECOND")
	}
	var n [3]int
	for i, a := range args {
		v, err := strconv.Atoi(a)
		if err != nil {
			return err
		}
		n[i] = v
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	var all []stream
	for len(all) < n[0] {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		id, err := accept(c)
		if err != nil {
			return err
		}
		if id < 0 || id >= n[0] {
			return fmt.Errorf("a prompt begins with %d; it must be the stream's number", id)
		}
		all = append(all, stream{c, id})
	}
	fmt.Println(allAreHere)
	log, err := tick(all, n[1], n[2])
	if err != nil {
		return err
	}
	return serveLog(l, log, reached(log))
}

// accept reads one request and answers with the head of a stream.
func accept(c net.Conn) (id int, err error) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return 0, err
	}
	// {"…":…,"prompt":[17,…],…}
	for i := 0; i+10 < len(body); i++ {
		if string(body[i:i+10]) == `"prompt":[` {
			if _, err := fmt.Sscanf(string(body[i+10:]), "%d", &id); err != nil {
				return 0, err
			}
		}
	}
	_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	return id, err
}

// mostWriters is how many threads write at most.
const mostWriters = 4

// tick writes all events. What goes out is an event of a real server's size,
// one write each. The streams are shared among as many threads as there are
// CPUs, within reason.
func tick(all []stream, rounds, perSecond int) (log [][]int64, err error) {
	log = make([][]int64, len(all))
	writers := min(mostWriters, runtime.GOMAXPROCS(0), len(all))
	start := time.Now().Add(200 * time.Millisecond)
	failed := make(chan error, writers)
	for w := range writers {
		go func() { failed <- write(all, log, w, writers, rounds, perSecond, start) }()
	}
	for range writers {
		err = errors.Join(err, <-failed)
	}
	return log, err
}

// write is one writer: every so many-th stream from w on.
func write(all []stream, log [][]int64, w, writers, rounds, perSecond int, start time.Time) error {
	runtime.LockOSThread()
	gap := time.Second / time.Duration(perSecond)
	running, last := newEvent("null"), newEvent(`"length"`)
	for r := range rounds {
		for i := w; i < len(all); i += writers {
			due := start.Add(time.Duration(r)*gap + gap*time.Duration(i)/time.Duration(len(all)))
			if d := time.Until(due); d > 0 {
				time.Sleep(d)
			}
			e := running
			if r == rounds-1 {
				e = last
			}
			now := time.Now().UnixNano()
			if _, err := all[i].conn.Write(e.at(now)); err != nil {
				return err
			}
			log[all[i].id] = append(log[all[i].id], now)
		}
	}
	usage := fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", rounds)
	for i := w; i < len(all); i += writers {
		if _, err := fmt.Fprintf(all[i].conn, "%x\r\n%s\r\n0\r\n\r\n", len(usage), usage); err != nil {
			return err
		}
	}
	return nil
}

// event is one of a real server's size as it goes over the wire, with a place
// for the time.
type event struct {
	bytes []byte
	time  int // where its 19 digits begin
}

func newEvent(finish string) event {
	const since = "1000000000000000000"
	text := `data: {"id":"cmpl-6f0c8d2a4b1e4f7c9d3e5a7b","object":"text_completion","created":1796037043,"model":"sim","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":` +
		finish + `,"stop_reason":null}],"t":` + since + "}\n\n"
	b := fmt.Appendf(nil, "%x\r\n%s\r\n", len(text), text)
	return event{b, bytes.Index(b, []byte(since))}
}

// at puts the time in, in nanoseconds since 1970. The bytes are the event's own.
func (e event) at(now int64) []byte {
	strconv.AppendInt(e.bytes[:e.time], now, 10)
	return e.bytes
}

// reached is how many events a second were written, NaN for fewer than two.
func reached(log [][]int64) float64 {
	var first, last int64 = math.MaxInt64, 0
	events := 0
	for _, times := range log {
		for _, t := range times {
			first, last, events = min(first, t), max(last, t), events+1
		}
	}
	return float64(events-1) / (float64(last-first) / 1e9)
}

// serveLog answers every further request, until it is killed.
func serveLog(l net.Listener, log [][]int64, reached float64) error {
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := bufio.NewWriter(w)
		if r.URL.Path == "/reached" {
			fmt.Fprint(out, reached)
		} else {
			printLog(out, log)
		}
		if err := out.Flush(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}))
}

func printLog(out *bufio.Writer, log [][]int64) {
	for _, times := range log {
		for i, t := range times {
			if i > 0 {
				fmt.Fprint(out, " ")
			}
			fmt.Fprint(out, t)
		}
		fmt.Fprintln(out)
	}
}
