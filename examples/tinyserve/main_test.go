package main

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be tinyserve, for the test with a real process.
func TestMain(m *testing.M) {
	if os.Getenv("TINYSERVE_TEST_MAIN") == "1" {
		main()
	}
	os.Exit(m.Run())
}

func TestHelpAndVersion(t *testing.T) {
	const golden = "testdata/help.txt"
	var out, errs bytes.Buffer
	if code := run([]string{"--help"}, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Errorf("exit %d, stderr %q", code, errs.String())
	}
	if os.Getenv("SOTABUILD_UPDATE") != "" {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("help is\n%s\nwant\n%s", out.String(), want)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 80 {
			t.Errorf("a line of %d characters: %q", len(line)-1, line)
		}
	}
	out.Reset()
	if code := run([]string{"--version"}, &out, &errs); code != 0 || out.String() != "tinyserve 0.1.0\n" {
		t.Errorf("exit %d, %q", code, out.String())
	}
}

func TestWrongCommandLines(t *testing.T) {
	const tiny = "--model=../models/tiny"
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown", []string{tiny, "--max-num-seq", "4"}, 2, "unknown flag: --max-num-seq"},
		{"not_a_number", []string{tiny, "--port", "x"}, 2, `invalid argument "x" for "--port" flag`},
		{"value_missing", []string{tiny, "--port"}, 2, "flag needs an argument: --port"},
		{"choice", []string{tiny, "--kernel", "fast"}, 2, `--kernel must be one of naive, blocked, not "fast"`},
		{"zero", []string{tiny, "--threads", "0"}, 2, "--threads must be between 1 and 256, not 0"},
		{"small_steps", []string{tiny, "--max-num-seqs=9", "--max-batched-tokens=8"}, 2, "--max-batched-tokens (8) must be at least --max-num-seqs (9)"},
		{"argument", []string{tiny, "serve"}, 2, `unexpected argument "serve"`},
		{"no_model", nil, 2, "--model is missing"},
		{"no_such_model", []string{"--model", "nowhere"}, 1, filepath.Join("nowhere", "config.json")},
		{"too_long", []string{tiny, "--max-model-len", "4096"}, 1, "--max-model-len 4096 is more than the model's max_position_embeddings, 2048"},
		{"no_such_address", []string{tiny, "--host", "203.0.113.1", "--port", "0"}, 1, "listening: listen tcp 203.0.113.1:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run(c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), "tinyserve: error: ") || !strings.Contains(errs.String(), c.want) || out.Len() > 0 {
				t.Errorf("exit %d, stderr %q, stdout %q", code, errs.String(), out.String())
			}
		})
	}
}

// process is tinyserve in a process of its own.
type process struct {
	*exec.Cmd
	url string
	log *bufio.Scanner
}

// launch starts a process and reads its address from its log.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0], append([]string{"--model=../models/tiny", "--port=0"}, args...)...)}
	p.Env = append(os.Environ(), "TINYSERVE_TEST_MAIN=1")
	pipe, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.log = bufio.NewScanner(pipe)
	p.url, _ = strings.CutPrefix(p.until(t, "listening"), "tinyserve: listening on ")
	return p
}

// until reads the log up to the line with text.
func (p *process) until(t *testing.T, text string) string {
	t.Helper()
	for p.log.Scan() {
		if strings.Contains(p.log.Text(), text) {
			return p.log.Text()
		}
	}
	t.Fatalf("the log ended without %q", text)
	return ""
}

// end sends SIGTERM and checks that the process ends well within a second of
// its own; how long a busy machine lets it wait is not the server's.
func (p *process) end(t *testing.T) {
	t.Helper()
	begun := time.Now()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for p.log.Scan() { // the pipe must be read to its end before Wait
	}
	if err := p.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("SIGTERM took %v", took)
	}
}

func TestProcessEndsAStreamOnSIGTERM(t *testing.T) {
	p := launch(t)
	p.until(t, "ready: tiny")
	w, err := http.Post(p.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":2040,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	p.end(t) // the headers came with the first token, so the stream runs
	list, done := events(t, w.Body)
	if len(list) == 0 || done {
		t.Fatalf("%d events, done %t", len(list), done)
	}
	last := list[len(list)-1]
	if last.Error == nil || last.Error.Status != 503 || last.Error.Message != "the server is shutting down" {
		t.Errorf("the last event is %+v", last)
	}
	for _, e := range list[:len(list)-1] {
		if e.Error != nil || e.Choices[0].Finish != nil {
			t.Errorf("an event in the middle is %+v", e)
		}
	}
}

func TestProcessIsNotReadyWhileLoading(t *testing.T) {
	p := launch(t, "--load-delay=3600")
	for _, path := range []string{"/health", "/v1/models", "/metrics"} {
		if status, _, body := call(t, "GET", p.url+path, ""); status != 503 || !strings.Contains(body, "the model is loading") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _, body := call(t, "GET", p.url+"/version", ""); status != 200 || strings.TrimSpace(body) != `{"version":"0.1.0"}` {
		t.Errorf("/version: %d %s", status, body)
	}
	p.end(t)

	p = launch(t, "--load-delay=0.01", "--served-model-name=other")
	p.until(t, "ready: other")
	if status, _, body := call(t, "GET", p.url+"/health", ""); status != 200 || body != "" {
		t.Errorf("/health: %d %s", status, body)
	}
	var out, errs bytes.Buffer
	port := p.url[strings.LastIndex(p.url, ":")+1:]
	if code := run([]string{"--model=../models/tiny", "--port=" + port}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "address already in use") {
		t.Errorf("a taken port: exit %d, %s", code, errs.String())
	}
	p.end(t)
}
