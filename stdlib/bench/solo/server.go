package solo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// server is the endpoint as far as it is asked before and after the cell.
type server struct {
	client *http.Client
	base   string
	header http.Header
	models string // path of the model list; "" where there is none
	ask    func(text string) (body []byte, err error)
	path   string // of the endpoint
	api    bench.API
	// guessed says that nobody told how many token ids there are.
	guessed bool
}

// paths are the APIs' usual endpoints.
var paths = map[bench.API]string{bench.Completions: "/v1/completions", bench.Chat: "/v1/chat/completions", bench.LlamaCpp: "/completion", bench.SGLang: "/generate"}

// connect asks for the model list and fills in what the person left open.
func connect(ctx context.Context, host bench.Host, o *Options) (*server, error) {
	if o.Path == "" {
		o.Path = paths[o.API]
	}
	transport, base, header, err := bench.Transport(bench.Spec{URL: o.URL, Headers: o.Headers, Rules: o.Rules}, host)
	if err != nil {
		return nil, err
	}
	s := &server{client: &http.Client{Transport: transport, Timeout: time.Minute}, base: base, header: header, path: o.Path, api: o.API, models: "/v1/models"}
	status, body, err := s.do(ctx, http.MethodGet, s.models, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its models: %w", o.URL, err)
	}
	var list struct {
		Data []struct {
			ID   string `json:"id"`
			Meta struct {
				Vocab int `json:"n_vocab"` // told by llama-server and its like
			} `json:"meta"`
		} `json:"data"`
	}
	switch {
	case status != http.StatusOK && strings.HasSuffix(o.URL, "/v1"):
		return nil, fmt.Errorf("%s%s has no model list (status %d); the paths of the API come after the URL: write %s", o.URL, s.models, status, strings.TrimSuffix(o.URL, "/v1"))
	case status != http.StatusOK && o.Model == "":
		return nil, fmt.Errorf("%s has no model list (status %d); give --model", o.URL, status)
	case status != http.StatusOK:
		s.models = ""
	case json.Unmarshal(body, &list) != nil || len(list.Data) == 0:
		return nil, fmt.Errorf("the model list of %s names no model: %s", o.URL, wire.Excerpt(body))
	case o.Model == "" && len(list.Data) > 1:
		return nil, fmt.Errorf("%s serves %d models; give --model, such as %q", o.URL, len(list.Data), list.Data[0].ID)
	case o.Model == "":
		o.Model = list.Data[0].ID
	}
	if len(list.Data) > 0 && o.Set.Ids.Hi == 0 {
		o.Set.Ids.Hi = list.Data[0].Meta.Vocab
	}
	if o.Set.Ids.Hi == 0 {
		o.Set.Ids.Hi, s.guessed = 10000, true
	}
	s.ask = func(text string) ([]byte, error) {
		return o.API.Encode(wire.Ask{Prompt: dataset.Prompt{Text: text, OutputLen: 1}, Model: o.Model, Whole: true, Extra: o.Body})
	}
	return s, nil
}

// explain adds to a row without numbers what to write instead: a model or ids
// that a server does not have are refused before anything is measured.
func (s *server) explain(row *result.Row, prompts []dataset.Prompt, ids dataset.Ids) {
	if row.Class == result.WrongModel && row.Requests.Sent() == 0 {
		row.Reason += "; give --model one that is served"
	}
	if s.guessed && row.Class == result.HTTPStatus && row.Requests.Sent() == 0 && len(prompts) > 0 && len(prompts[0].Tokens) > 0 {
		row.Reason += fmt.Sprintf("; the server does not tell its vocabulary, and token ids from %d to %d were drawn: write --vocab LO:HI, or --dataset-name random-text", ids.Lo, ids.Hi-1)
	}
}

func (s *server) do(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header = s.header.Clone()
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return resp.StatusCode, b, err
}

// count is the server's own count of a prompt's tokens, with all that the API
// puts around it: a request for one token says it.
func (s *server) count(ctx context.Context) dataset.Count {
	return func(text string) (int, error) {
		body, err := s.ask(text)
		if err != nil {
			return 0, err
		}
		status, b, err := s.do(ctx, http.MethodPost, s.path, body)
		if err != nil {
			return 0, err
		}
		if status != http.StatusOK {
			return 0, fmt.Errorf("the server answered status %d: %s", status, wire.Excerpt(b))
		}
		a := wire.NewAnswer(s.api, nil, 1)
		a.Whole(0, b)
		if a.Usage.Input < 1 {
			return 0, fmt.Errorf("the server did not count the prompt: %s", wire.Excerpt(b))
		}
		return int(a.Usage.Input), nil
	}
}
