package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/engine"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/vocab"
)

// server is the HTTP interface. It answers 503 until it has an engine.
type server struct {
	name    string
	limit   int // of prompt and answer together
	traces  string
	shapes  bool
	started time.Time
	engine  atomic.Pointer[engine.Engine]
	mux     http.ServeMux
}

// route is one row of the interface.
type route struct {
	method, path string
	loaded       bool // needs the engine
	do           func(http.ResponseWriter, *http.Request) error
}

// newServer makes the interface; traces is the folder for profiles, "" arms no
// profiler, and shapes is what they have beside kernels.
func newServer(name string, limit int, traces string, shapes bool) *server {
	s := &server{name: name, limit: limit, traces: traces, shapes: shapes, started: time.Now()}
	routes := []route{
		{http.MethodPost, "/v1/completions", true, s.completions},
		{http.MethodPost, "/v1/chat/completions", true, s.chat},
		{http.MethodGet, "/v1/models", true, s.models},
		{http.MethodGet, "/health", true, s.health},
		{http.MethodPost, "/tokenize", true, s.tokenize},
		{http.MethodPost, "/detokenize", true, s.detokenize},
		{http.MethodGet, "/metrics", true, s.metrics},
		{http.MethodGet, "/version", false, s.version},
	}
	if traces != "" {
		routes = append(routes, route{http.MethodPost, "/start_profile", true, s.startProfile},
			route{http.MethodPost, "/stop_profile", true, s.stopProfile})
	}
	for _, r := range routes {
		s.mux.HandleFunc(r.path, func(w http.ResponseWriter, q *http.Request) {
			var err error
			switch {
			case q.Method != r.method && !(r.method == http.MethodGet && q.Method == http.MethodHead):
				w.Header().Set("Allow", r.method)
				err = &problem{Status: http.StatusMethodNotAllowed, Type: "MethodNotAllowedError",
					Message: fmt.Sprintf("%s takes %s, not %s", r.path, r.method, q.Method)}
			case r.loaded && s.engine.Load() == nil:
				err = &problem{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError", Message: "the model is loading"}
			default:
				q.Body = http.MaxBytesReader(w, q.Body, maxBody)
				err = r.do(w, q)
			}
			refuse(w, err)
		})
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		refuse(w, &problem{Status: http.StatusNotFound, Type: "NotFoundError", Message: fmt.Sprintf("there is no %s here", q.URL.Path)})
	})
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refuse answers a problem; nil is none. Errors of the connection itself have
// nobody to be told to.
func refuse(w http.ResponseWriter, err error) {
	var p *problem
	if errors.As(err, &p) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": p})
	}
}

// reply answers v.
func reply(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *server) version(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, map[string]string{"version": version})
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.name, "object": "model", "created": s.started.Unix(), "owned_by": "tinyserve", "max_model_len": s.limit,
		"meta": map[string]any{"n_vocab": vocab.Size},
	}}})
}

func (s *server) tokenize(w http.ResponseWriter, r *http.Request) error {
	var model, prompt string
	var messages []messageField
	special := true
	err := decode(r.Body, map[string]any{"model": &model, "prompt": &prompt, "messages": &messages, "add_special_tokens": &special})
	if err != nil {
		return err
	}
	ids := []vocab.ID{}
	switch {
	case messages != nil && prompt != "":
		return badRequest("messages", "give prompt or messages, not both")
	case messages != nil:
		if ids, err = chatPrompt(messages); err != nil {
			return err
		}
	default:
		if special {
			ids = append(ids, vocab.BOS)
		}
		ids = append(ids, vocab.Encode(prompt)...)
	}
	return reply(w, map[string]any{"count": len(ids), "max_model_len": s.limit, "tokens": ids})
}

func (s *server) detokenize(w http.ResponseWriter, r *http.Request) error {
	var model string
	var given tokenList
	if err := decode(r.Body, map[string]any{"model": &model, "tokens": &given}); err != nil {
		return err
	}
	ids, err := tokenIDs("tokens", given)
	if err != nil {
		return err
	}
	return reply(w, map[string]any{"prompt": vocab.Decode(ids)})
}

// metrics answers in Prometheus' text form. Names are vLLM's behind the colon
// where they mean the same.
func (s *server) metrics(w http.ResponseWriter, _ *http.Request) error {
	st := s.engine.Load().Stats()
	var b strings.Builder
	row := func(kind, name, help string, v any) {
		bare, _, _ := strings.Cut(name, "{")
		if help != "" {
			fmt.Fprintf(&b, "# HELP tinyserve:%s %s\n# TYPE tinyserve:%s %s\n", bare, help, bare, kind)
		}
		fmt.Fprintf(&b, "tinyserve:%s %v\n", name, v)
	}
	row("gauge", "num_requests_running", "Requests that run.", st.Running)
	row("gauge", "num_requests_waiting", "Requests that wait for a slot.", st.Waiting)
	row("gauge", "kv_cache_usage_perc", "Share of the key/value blocks in use, 1 is all.", float64(st.BlocksUsed)/float64(st.Blocks))
	row("counter", "prompt_tokens_total", "Prompt tokens, computed or cached.", st.PrefillTokens+st.CachedTokens)
	row("counter", "prompt_tokens_cached_total", "Prompt tokens from the prefix cache.", st.CachedTokens)
	row("counter", "generation_tokens_total", "Tokens generated.", st.Generated)
	row("counter", `request_success_total{finished_reason="length"}`, "Requests that ended by themselves.", st.Finished[engine.Length])
	row("counter", `request_success_total{finished_reason="stop"}`, "", st.Finished[engine.Stop])
	row("counter", "request_canceled_total", "Requests whose client went away.", st.Canceled)
	row("counter", "engine_steps_total", "Steps computed.", st.Steps)
	row("gauge", "step_seqs_max", "Most sequences in a step so far.", st.PeakRunning)
	row("gauge", "step_tokens_max", "Most tokens in a step so far.", st.PeakTokens)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err := w.Write([]byte(b.String()))
	return err
}

func (s *server) startProfile(w http.ResponseWriter, _ *http.Request) error {
	if !s.engine.Load().StartProfile(s.shapes) {
		return badRequest("", "a profile is being taken already; POST /stop_profile ends it")
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// stopProfile answers when the trace is written.
func (s *server) stopProfile(w http.ResponseWriter, _ *http.Request) error {
	rec := s.engine.Load().StopProfile()
	if rec == nil {
		return badRequest("", "no profile is being taken; POST /start_profile begins one")
	}
	path, err := rec.Write(s.traces)
	if err != nil {
		return &problem{Status: http.StatusInternalServerError, Type: "InternalServerError", Message: err.Error()}
	}
	return reply(w, map[string]string{"trace": path})
}

func (s *server) completions(w http.ResponseWriter, r *http.Request) error {
	return s.generate(w, r, completionForm)
}

func (s *server) chat(w http.ResponseWriter, r *http.Request) error {
	return s.generate(w, r, chatForm)
}

// generate answers a request. The slot is free again when it returns, also
// when the client has gone away.
func (s *server) generate(w http.ResponseWriter, r *http.Request, f form) error {
	g, q, err := parse(r.Body, f.chat, s.name, s.limit)
	if err != nil {
		return err
	}
	h, err := s.engine.Load().Submit(q)
	if tooLong := (*engine.LengthError)(nil); errors.As(err, &tooLong) {
		return badRequest(f.input, "%v", err)
	} else if err != nil {
		return unavailable(err)
	}
	defer h.Cancel()
	a := newAnswer(f, s.name, len(q.Prompt))
	if g.Stream {
		return a.stream(w, r, h, g.StreamOptions.IncludeUsage)
	}
	return a.whole(w, r, h)
}

func unavailable(err error) *problem {
	return &problem{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError", Message: err.Error()}
}
