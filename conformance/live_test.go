package conformance

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/stdlib/simserve"
)

// TestBenchIsATableOnATerminal runs a benchmark whose error output is a
// terminal and looks at the screen after each drawing: a table in its place, of
// which nothing is left at the end; less of it where the terminal is small;
// plain lines where it has no cursor or somebody keeps what it shows.
func TestBenchIsATableOnATerminal(t *testing.T) {
	h, err := simserve.Handler(simserve.Config{Model: "sim", Prefill: 50 * time.Millisecond, Step: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()

	all := watchBench(t, srv.URL, 80, 24, "TERM=xterm")
	if len(all) < 5 {
		t.Fatalf("%d screens: %q", len(all), all)
	}
	// Some screen in the middle knows everything, before all requests are done.
	whole := regexp.MustCompile(`^  time      \d+\.\d s, about \ds left
  requests  \d+ of 12 requests done, [34] in flight, 0 failed
  rate      \d+\.\d\d requests/s, no rate asked for
  output    \d+\.\d tokens/s, \d+ events/s in the last second
                     p50           p99          n
  TTFT +\S+ ms +\S+ ms +\d+
  TPOT +\S+ ms +\S+ ms +\d+
  ITL +\S+ ms +\S+ ms +\d+
  send lag +\S+ ms +\S+ ms +\d+$`)
	if !slices.ContainsFunc(all, whole.MatchString) {
		t.Errorf("no screen is the table:\n%s", strings.Join(all, "\n--\n"))
	}
	if last := all[len(all)-1]; last != "" {
		t.Errorf("left on the terminal:\n%s", last)
	}

	small := watchBench(t, srv.URL, 30, 5, "TERM=xterm")
	if !slices.ContainsFunc(small, func(s string) bool {
		return strings.Count(s, "\n") == 3 && strings.HasPrefix(s, "  time ") && strings.Contains(s, "…")
	}) {
		t.Errorf("a small terminal:\n%s", strings.Join(small, "\n--\n"))
	}
	for _, env := range []string{"TERM=dumb", "CI=true"} {
		if plain := watchBench(t, srv.URL, 80, 24, env); len(plain) != 1 || plain[0] != "" { // it is over before five seconds
			t.Errorf("%s: %q", env, plain)
		}
	}
}

// watchBench benchmarks a server with standard error on a terminal of a size,
// and returns what its screen showed after each time that something was drawn.
func watchBench(t *testing.T, url string, cols, rows int, env ...string) []string {
	t.Helper()
	master, slave := terminal(t, cols, rows)
	cmd := exec.Command(filepath.Join(bin, "sotabuild"), "bench", url, "--num-prompts", "12", "--max-concurrency", "4", "--input-len", "8", "--output-len", "16", "--ignore-eos")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, slave
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TERM=xterm"}, env...)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	s := &screen{cols: cols, rows: rows, lines: make([]string, rows)}
	draws := 0
	for buf := make([]byte, 64<<10); ; {
		n, err := master.Read(buf)
		if err != nil {
			break // EIO: nobody holds the other side any more
		}
		draws += bytes.Count(buf[:n], []byte("  time "))
		if err := s.feed(string(buf[:n])); err != nil {
			t.Fatalf("%v: %q", err, buf[:n])
		}
	}
	// A machine that hurries may end requests as client_limited: that has no numbers.
	if err := cmd.Wait(); err != nil && !strings.Contains(out.String(), "client_limited") || !strings.Contains(out.String(), "12 requests ok") {
		t.Errorf("%v: %s", err, out.String())
	}
	if most := 4*time.Since(start).Seconds() + 1; float64(draws) > most {
		t.Errorf("%d drawings, at most %.1f are allowed", draws, most)
	}
	return append(s.seen, s.text())
}

// terminal opens a pseudo-terminal of a size.
func terminal(t *testing.T, cols, rows int) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// screen is as much of a terminal as the table needs. It knows no scrolling: who
// draws beyond an edge is wrong.
type screen struct {
	cols, rows int
	lines      []string
	x, y       int
	rest       string   // of an escape that came in parts
	seen       []string // texts after a drawing
}

var control = regexp.MustCompile(`^\x1b\[([0-9]*)([A-Za-z])`)

func (s *screen) feed(text string) error {
	for text = s.rest + text; text != ""; {
		s.rest = ""
		r := []rune(text)[0]
		size := len(string(r))
		switch r {
		case '\x1b':
			m := control.FindStringSubmatch(text)
			switch {
			case m == nil && len(text) < 8:
				s.rest = text
				return nil
			case m != nil && m[2] == "A":
				var n int
				if _, err := fmt.Sscan(m[1], &n); err != nil || n > s.y {
					return fmt.Errorf("up %q from line %d", m[1], s.y)
				}
				s.see()
				s.y -= n
			case m != nil && m[2] == "J" && m[1] == "":
				s.lines[s.y] = s.lines[s.y][:min(s.x, len(s.lines[s.y]))]
				clear(s.lines[s.y+1:])
			default:
				return fmt.Errorf("an unknown escape")
			}
			size = len(m[0])
		case '\r':
			s.x = 0
		case '\n':
			if s.y++; s.y == s.rows {
				return fmt.Errorf("it scrolled")
			}
		default:
			if s.x++; s.x > s.cols {
				return fmt.Errorf("a line of more than %d columns", s.cols)
			}
			s.lines[s.y] += string(r)
		}
		text = text[size:]
	}
	return nil
}

func (s *screen) see() { s.seen = append(s.seen, s.text()) }

func (s *screen) text() string { return strings.TrimRight(strings.Join(s.lines, "\n"), "\n ") }
