package bench_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// answered is what a capture means, written by hand from the request that was
// sent and the bytes that came.
type answered struct {
	file   string
	api    bench.API
	ask    int    // output tokens that were asked for
	how    string // "ids": 8 token ids were sent; "eos": ignore_eos was on
	class  result.Class
	input  int64 // usage; -1 not said
	output int64
	cached int64
	events int // events with a token
	first  int // index of the first and last of them; data: [DONE], null and errors count as events too
	last   int
}

const none = -1

var captures = []answered{
	// llama.cpp: usage stands on the finish event of /v1/completions, which has no text.
	{"llamacpp/completions-text-stream", bench.Completions, 12, "", "", 7, 12, 0, 12, 0, 11},
	{"llamacpp/completions-usage-stream", bench.Completions, 12, "", "", 7, 12, 6, 12, 0, 11},
	{"llamacpp/completions-tokenids-stream", bench.Completions, 12, "ids", "", 8, 12, 1, 12, 0, 11},
	{"llamacpp/completions-timings-per-token-stream", bench.Completions, 4, "", "", 7, 4, 6, 4, 0, 3},
	{"llamacpp/completions-logprobs-stream", bench.Completions, 3, "", "", 7, 3, 6, 3, 0, 2},
	{"llamacpp/completions-n-predict-stream", bench.Completions, 16, "eos", "", 25, 16, 24, 16, 0, 15},
	{"llamacpp/completions-ignore-eos-stream", bench.Completions, 64, "eos", "", 25, 64, 7, 64, 0, 63},
	{"llamacpp/completions-cached-first-stream", bench.Completions, 4, "", "", 38, 4, 0, 4, 0, 3},
	{"llamacpp/completions-cached-second-stream", bench.Completions, 4, "", "", 38, 4, 37, 4, 0, 3},
	{"llamacpp/completions-cache-prompt-false-stream", bench.Completions, 4, "", "", 38, 4, 0, 4, 0, 3},
	{"llamacpp/max-tokens-one-stream", bench.Completions, 1, "", "", 3, 1, 2, 1, 0, 0},
	{"llamacpp/error-bad-range", bench.Completions, 4, "", "", 3, 4, 2, 4, 0, 3},
	{"llamacpp/error-empty-prompt", bench.Completions, 4, "", "", 1, 4, 0, 4, 0, 3},
	// The EOS token is counted, its event has no text: 34 tokens, 33 events.
	{"llamacpp/completions-eos-stop-stream", bench.Completions, 200, "", "", 25, 34, 24, 33, 0, 32},
	{"llamacpp/completions-eos-stop-stream", bench.Completions, 200, "eos", result.ShortOutput, 25, 34, 24, 33, 0, 32},
	{"llamacpp/completions-stop-string-stream", bench.Completions, 200, "", "", 25, 6, 24, 6, 0, 5},
	// A euro sign is three tokens and one event; the fourth token is EOS.
	{"llamacpp/completions-utf8-stream", bench.Completions, 30, "", "", 6, 4, 2, 1, 0, 0},
	// Two events of progress with empty text come before the first token.
	{"llamacpp/completions-return-progress-stream", bench.Completions, 2, "", "", 82, 2, 1, 2, 2, 3},
	// max_tokens 0 makes one token; too many end at the context's size.
	{"llamacpp/max-tokens-zero-stream", bench.Completions, 1, "", "", 3, 1, 2, 1, 0, 0},
	{"llamacpp/max-tokens-too-large-stream", bench.Completions, 100000, "eos", result.ShortOutput, 3, 1021, 1, 7, 0, 6},
	{"llamacpp/max-tokens-too-large-stream", bench.Completions, 100000, "", result.ShortOutput, 3, 1021, 1, 7, 0, 6},
	{"llamacpp/completions-text-stream", bench.Completions, 11, "", result.LongOutput, 7, 12, 0, 12, 0, 11},
	{"llamacpp/completions-text-stream", bench.Completions, 12, "ids", result.PromptMismatch, 7, 12, 0, 12, 0, 11},
	// Two answers to one request cannot be told apart in time; each has its own usage.
	{"llamacpp/completions-n2-stream", bench.Completions, 4, "", result.BadStream, 3, 4, 2, 8, 0, 8},
	{"llamacpp/completions-two-prompts-stream", bench.Completions, 4, "", result.BadStream, 3, 4, 1, 8, 1, 9},
	{"llamacpp/error-mid-stream", bench.Completions, 500, "eos", result.StreamError, none, none, none, 8, 0, 7},
	{"llamacpp/sigterm-stream-cut", bench.Completions, 6000, "eos", result.Truncated, none, none, none, 12, 0, 11},
	// Chat: the role event is no token; usage on an event without choices, if asked for.
	{"llamacpp/chat-stream", bench.Chat, 10, "", result.CountMismatch, none, none, none, 10, 1, 10},
	{"llamacpp/chat-usage-stream", bench.Chat, 10, "eos", "", 21, 10, 1, 10, 1, 10},
	{"llamacpp/chat-max-completion-tokens-stream", bench.Chat, 5, "", "", 21, 5, 20, 5, 1, 5},
	// The native path has no [DONE]; stop:true ends it.
	{"llamacpp/completion-native-stream", bench.LlamaCpp, 6, "", "", 7, 6, 6, 6, 0, 5},
	{"llamacpp/completion-native-tokenids-stream", bench.LlamaCpp, 12, "ids", "", 8, 12, 7, 12, 0, 11},
	{"llamacpp/completion-native-tokenids-return-tokens-stream", bench.LlamaCpp, 4, "ids", "", 8, 4, 7, 4, 0, 3},
	{"llamacpp/completions-nonstream", bench.Completions, 12, "", result.BadStream, none, none, none, 0, none, none},
	{"llamacpp/chat-nonstream", bench.Chat, 10, "", result.BadStream, none, none, none, 0, none, none},
	{"llamacpp/wrong-model-name", bench.Completions, 2, "", result.BadStream, none, none, none, 0, none, none},
	{"llamacpp/error-context-overflow-stream", bench.Completions, 8, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/error-401", bench.Completions, 2, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/error-bad-grammar", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/error-bad-json", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/error-bad-token-id", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/error-bad-type", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/error-no-prompt", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/error-unknown-path", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/embeddings-refused", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"llamacpp/health-loading", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	// vLLM: usage on an event without choices, only if asked for.
	{"vllm/completions_stream", bench.Completions, 8, "", result.CountMismatch, none, none, none, 8, 0, 7},
	{"vllm/completions_stream_raw_chunked", bench.Completions, 4, "", result.CountMismatch, none, none, none, 4, 0, 3},
	{"vllm/completions_stream_token_ids", bench.Completions, 8, "", result.CountMismatch, none, none, none, 8, 0, 7},
	{"vllm/completions_stream_logprobs", bench.Completions, 3, "", result.CountMismatch, none, none, none, 3, 0, 2},
	{"vllm/completions_stream_return_token_ids", bench.Completions, 4, "", result.CountMismatch, none, none, none, 4, 0, 3},
	{"vllm/completions_stream_usage", bench.Completions, 8, "", "", 3, 8, 0, 8, 0, 7},
	{"vllm/completions_stream_continuous_usage", bench.Completions, 8, "", "", 3, 8, 0, 8, 0, 7},
	{"vllm/completions_stream_ignore_eos", bench.Completions, 16, "eos", "", 3, 16, 0, 16, 0, 15},
	{"vllm/completions_prefix_cached_stream", bench.Completions, 2, "", "", 321, 2, 256, 2, 0, 1},
	{"vllm/chat_stream", bench.Chat, 8, "", result.CountMismatch, none, none, none, 8, 1, 8},
	{"vllm/chat_stream_usage", bench.Chat, 8, "", "", 18, 8, 0, 8, 1, 8},
	{"vllm/completions_n2", bench.Completions, 4, "", result.BadStream, 3, 8, 0, 8, 0, 7},
	{"vllm/completions_batch_prompts", bench.Completions, 3, "", result.BadStream, none, none, none, 6, 0, 5},
	// The first event repeats the prompt and carries two tokens: 3 events for 4.
	{"vllm/quirk_prompt_echoed", bench.Completions, 4, "", result.CountMismatch, none, none, none, 3, 0, 2},
	// 200, then an error event and [DONE]; an abort looks complete to curl.
	{"vllm/error_token_id_out_of_vocab", bench.Completions, 4, "", result.StreamError, none, none, none, 0, none, none},
	{"vllm/abort_engine_sigkill_stream", bench.Completions, 2000, "", result.StreamError, none, none, none, 5, 0, 4},
	{"vllm/abort_server_sigterm_stream", bench.Completions, 2000, "", result.Truncated, none, none, none, 12, 0, 11},
	{"vllm/abort_server_sigkill_stream", bench.Completions, 2000, "", result.Truncated, none, none, none, 5, 0, 4},
	{"vllm/abort_engine_sigkill_nonstream", bench.Completions, 2000, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/error_context_too_long", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/error_unknown_model", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/error_bad_json", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/error_bad_type", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/error_empty_prompt", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/error_missing_prompt", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/error_max_tokens_zero", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/error_max_tokens_too_large", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/not_found", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"vllm/method_not_allowed", bench.Completions, 4, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"h200/vllm_0.26.0.chat", bench.Chat, 4, "", "", 11, 4, 0, 4, 1, 4},
	{"h200/sglang_0.5.17.chat", bench.Chat, 4, "", "", 11, 4, none, 4, 1, 4},
	{"h200/sglang_0.5.17.completion_ids", bench.Completions, 4, "", "", 4, 4, none, 4, 0, 3},
	{"h200/sglang_0.5.17.generate", bench.SGLang, 4, "", "", 4, 4, 3, 4, 0, 3},
	{"h200/sglang_0.5.17.generate", bench.SGLang, 5, "eos", result.ShortOutput, 4, 4, 3, 4, 0, 3},
	{"h200/sglang_0.5.17.nomodel", bench.Completions, 2, "", result.BadStream, none, none, none, 0, none, none},
	{"h200/sglang_0.5.17.toolong", bench.Completions, 2, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"h200/sglang_0.5.17.badjson", bench.Completions, 2, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"h200/vllm_0.26.0.nomodel", bench.Completions, 2, "", result.HTTPStatus, none, none, none, 0, none, none},
	{"h200/vllm_0.26.0.toolong", bench.Completions, 2, "", result.HTTPStatus, none, none, none, 0, none, none},
}

// TestCapturesMeanTheSameInAnySplit replays each capture in writes of one byte,
// of seven bytes, as a whole, and event by event a millisecond apart: the last
// shows which event was taken for the first token.
func TestCapturesMeanTheSameInAnySplit(t *testing.T) {
	for _, c := range captures {
		raw := capture(t, c.file)
		for name, pieces := range map[string][][]byte{
			"1_byte": split(raw, 1), "7_bytes": split(raw, 7), "whole": {raw}, "by_event": afterEvents(raw),
		} {
			t.Run(fmt.Sprintf("%s/%d%s/%s", c.file, c.ask, c.how, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					wait := time.Duration(0)
					if name == "by_event" {
						wait = ms
					}
					check(t, c, replay(t, c, pieces, wait), name == "by_event")
				})
			})
		}
	}
}

func check(t *testing.T, c answered, q judge.Request, timed bool) {
	t.Helper()
	said := func(n *int64) int64 {
		if n == nil {
			return none
		}
		return *n
	}
	index := func(s *float64) int {
		if s == nil {
			return none
		}
		return int(*s*1000 + .5)
	}
	if q.Class != c.class || (q.Class == "") != (q.Reason == "") {
		t.Errorf("class is %q (%s), want %q", q.Class, q.Reason, c.class)
	}
	if said(q.Input) != c.input || said(q.Output) != c.output || said(q.Cached) != c.cached || q.Events != c.events {
		t.Errorf("input %d, output %d, cached %d, events %d; want %d, %d, %d, %d", said(q.Input), said(q.Output),
			said(q.Cached), q.Events, c.input, c.output, c.cached, c.events)
	}
	if timed && (index(q.First) != c.first || index(q.Last) != c.last) {
		t.Errorf("tokens from event %d to %d, want %d to %d", index(q.First), index(q.Last), c.first, c.last)
	}
}

// replay sends the bytes as the answer to one request and closes the
// connection, as llama.cpp does although it announces to keep it.
func replay(t *testing.T, c answered, pieces [][]byte, wait time.Duration) judge.Request {
	t.Helper()
	dataset := `{"id":0,"text":"a prompt","output_len":%d}` + "\n"
	if c.how == "ids" {
		dataset = `{"id":0,"tokens":[1,38,288,272,350,401,77,300],"output_len":%d}` + "\n"
	}
	s := spec(file(t, "prompts.jsonl", fmt.Sprintf(dataset, c.ask)))
	s.API, s.Models = c.api, ""
	s.Rules.IgnoreEOS = c.how == "eos"
	rep := rawServer(t, s, pieces, wait)
	if len(rep.Requests) != 1 {
		t.Fatalf("%d requests: %s", len(rep.Requests), describe(rep.Row))
	}
	if ok := rep.Row.Status == result.OK; ok != (c.class == "") || ok != (len(rep.Row.Metrics) > 0) {
		t.Errorf("row is %s", describe(rep.Row))
	}
	return rep.Requests[0]
}

// rawServer runs a cell against a server that answers every request with the
// same bytes and then closes.
func rawServer(t *testing.T, s bench.Spec, pieces [][]byte, wait time.Duration) bench.Report {
	t.Helper()
	pipes := newPipes()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := pipes.Accept()
			if err != nil {
				return
			}
			answerRaw(t, conn, pieces, wait)
		}
	}()
	rep, err := bench.Host{Dial: pipes.dial}.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := pipes.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	return rep
}

func answerRaw(t *testing.T, conn net.Conn, pieces [][]byte, wait time.Duration) {
	defer conn.Close()
	if !takeRequest(t, bufio.NewReader(conn)) {
		return
	}
	for i, p := range pieces {
		if i > 0 {
			time.Sleep(wait)
		}
		// A client that has seen enough closes: the rest has no reader.
		if _, err := conn.Write(p); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("writing the answer: %v", err)
		}
	}
}

// takeRequest reads one request whole.
func takeRequest(t *testing.T, in *bufio.Reader) bool {
	req, err := http.ReadRequest(in)
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	if err != nil {
		t.Errorf("reading the request: %v", err)
	}
	return err == nil
}

func split(b []byte, n int) (out [][]byte) {
	for len(b) > 0 {
		n := min(n, len(b))
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}

// afterEvents splits after each empty line of the stream.
func afterEvents(b []byte) [][]byte { return bytes.SplitAfter(b, []byte("\n\n")) }

var chunkLine = regexp.MustCompile(`^[0-9a-f]+\r\n`)

// capture reads an answer and restores what its taking has lost: the chunk
// framing, and for a cut file whole events on both sides of the cut.
func capture(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("%s has no head", name)
	}
	if !bytes.Contains(bytes.ToLower(head), []byte("transfer-encoding: chunked")) {
		return raw
	}
	lost := name == "vllm/abort_server_sigkill_stream" // ended without the last chunk
	if before, after, cut := bytes.Cut(body, []byte("...(cut)...")); cut {
		// Drop the event that was cut, with the size line before it.
		before = before[:bytes.LastIndex(before, []byte("\n\n\r\n"))+4]
		after = after[bytes.Index(after, []byte("\n\n\r\n"))+4:]
		return []byte(string(head) + "\r\n\r\n" + string(before) + string(after))
	}
	if chunkLine.Match(body) {
		return raw
	}
	var b strings.Builder
	for _, e := range afterEvents(body) {
		if len(e) > 0 {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(e), e)
		}
	}
	if !lost {
		b.WriteString("0\r\n\r\n")
	}
	return []byte(string(head) + "\r\n\r\n" + b.String())
}

// TestEveryCaptureIsExpected finds captures without a row.
func TestEveryCaptureIsExpected(t *testing.T) {
	have := map[string]bool{"llamacpp/models": true, "vllm/models": true} // no answers to a prompt
	for _, c := range captures {
		have[c.file] = true
	}
	files, err := filepath.Glob("testdata/*/*.http")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(f), "testdata/"), ".http")
		if !have[name] {
			t.Errorf("no row says what %s means", name)
		}
	}
}

// TestClosedConnectionIsTriedAgain answers the first request of a connection
// and closes it when the second one comes: a race that servers with an idle
// timeout make. The client must say that it sent a request twice.
func TestClosedConnectionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(file(t, "prompts.jsonl", `{"id":0,"text":"a","output_len":12}
{"id":1,"text":"b","output_len":12}
{"id":2,"text":"c","output_len":12}
`))
		s.Models = ""
		s.Load.Concurrency = ptr(1)
		raw := capture(t, "llamacpp/completions-text-stream")
		pipes := newPipes()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				conn, err := pipes.Accept()
				if err != nil {
					return
				}
				in := bufio.NewReader(conn)
				if takeRequest(t, in) {
					if _, err := conn.Write(raw); err != nil {
						t.Errorf("writing the answer: %v", err)
					}
					_, _ = http.ReadRequest(in) // or the end, after the last one
				}
				conn.Close()
			}
		}()
		rep, err := bench.Host{Dial: pipes.dial}.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := pipes.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		if r := rep.Row; r.Requests.OK != 3 || len(r.Warnings) == 0 || !strings.HasPrefix(r.Warnings[0], "2 requests sent a second time") {
			t.Errorf("row is %s with warnings %q", describe(r), r.Warnings)
		}
	})
}

// TestConnectionsClosedAfterAStream runs several requests against a server
// that closes after each stream although it announced to keep the connection.
func TestConnectionsClosedAfterAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(file(t, "prompts.jsonl", `{"id":0,"text":"a","output_len":12}
{"id":1,"text":"b","output_len":12}
{"id":2,"text":"c","output_len":12}
{"id":3,"text":"d","output_len":12}
`))
		s.Models = ""
		s.Load.Concurrency = ptr(1)
		raw := capture(t, "llamacpp/completions-text-stream")
		r := rawServer(t, s, afterEvents(raw), ms).Row
		// The answer has 15 pieces: 12 tokens, the finish event, [DONE] and the
		// last chunk, the first one at once.
		if got := number(t, r, "e2e:p50"); r.Requests.OK != 4 || r.Status != result.OK || got != .011 || r.Time.Seconds < 4*.013 {
			t.Errorf("row is %s", describe(r))
		}
	})
}
