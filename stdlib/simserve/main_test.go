package simserve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCommandServesAndStamps runs the command as a task does, with a stream in
// flight when it is told to stop.
func TestCommandServesAndStamps(t *testing.T) {
	stamps := filepath.Join(t.TempDir(), "stamps.jsonl")
	c, err := parseArgs([]string{"--port=0", "--model", "/no/such/model", "--served-model-name", "m", "--prefill=1ms", "--step=1h", "--stamps", stamps})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- c.serve(ctx, w) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("it says %q, error %v", line, err)
	}
	before := time.Now()
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"hello","max_tokens":2,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(line, `" t"`) {
		t.Fatalf("first line %q, error %v", line, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(stamps)
	if err != nil {
		t.Fatal(err)
	}
	var s stampLine
	if err := json.Unmarshal(b, &s); err != nil || s.Request != 0 || len(s.Writes) != 1 ||
		s.Arrived < before.UnixNano() || s.Writes[0] < s.Arrived+int64(time.Millisecond) || s.Writes[0] > time.Now().UnixNano() {
		t.Errorf("stamps are %s, error %v", b, err)
	}
}

// TestHelpNamesEveryFlagAndFault checks the text that a campaign's flag check
// reads.
func TestHelpNamesEveryFlagAndFault(t *testing.T) {
	c, err := parseArgs([]string{"--help"})
	if err == nil {
		t.Fatal("--help is taken for a run")
	}
	var b bytes.Buffer
	if err := c.help(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--host string", "--port int", "--served-model-name string", "--prefill duration", "--step duration",
		"--max-num-seqs int", "--tokens-per-event int", "--fault-every int", "--role-first", "--stamps string", "  error_event ", "(default 8000)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the help does not have %q:\n%s", want, &b)
		}
	}
}

// TestExitCodes has wrong usage (7) and a machine that refuses (1).
func TestExitCodes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--help"}, exitOK},
		{[]string{"--no-such-flag"}, exitUsage},
		{[]string{"stray"}, exitUsage},
		{[]string{"--fault=no_such_fault", "--port=0"}, exitUsage},
		{[]string{"--port", port}, exitError},
		{[]string{"--port=0", "--stamps", t.TempDir()}, exitError},
	} {
		if got := Main(c.args); got != c.want {
			t.Errorf("%q: exit code %d, want %d", c.args, got, c.want)
		}
	}
}
