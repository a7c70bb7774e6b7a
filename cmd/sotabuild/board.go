package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sotabuild/sotabuild/stdlib/bench"
)

// board shows a benchmark that goes on: on a terminal a table that is drawn
// again in its place, elsewhere a line each five seconds. It belongs to the one
// goroutine that looks, and then to who closes it.
type board struct {
	w     io.Writer
	live  bool
	drawn int           // lines of the table above the cursor
	last  time.Duration // of the last plain line
}

func newBoard(w io.Writer) *board { return &board{w: w, live: redraws(w)} }

func (b *board) show(p bench.Progress) {
	if !b.live {
		if p.Elapsed-b.last >= 5*time.Second {
			b.last = p.Elapsed
			fmt.Fprintln(b.w, p.Line())
		}
		return
	}
	lines, cols := p.Table(), width(b.w)
	lines = lines[:min(len(lines), max(1, height(b.w)-1))] // what has left the screen cannot be drawn again
	var s strings.Builder
	s.WriteString(b.erase())
	for _, l := range lines {
		s.WriteString(clip(l, cols) + "\n")
	}
	b.drawn = len(lines)
	_, _ = io.WriteString(b.w, s.String()) // who looks on must not end the run
}

// close takes the table away: the result says the same, and exactly.
func (b *board) close() { _, _ = io.WriteString(b.w, b.erase()) }

func (b *board) erase() string {
	n := b.drawn
	if b.drawn = 0; n == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", n)
}

// height is the terminal's, or 24 where it does not say.
func height(w io.Writer) int {
	if f, ok := file(w); ok {
		if _, n, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 24
}
