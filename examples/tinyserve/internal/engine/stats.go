package engine

import (
	"maps"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/model"
)

// Stats counts since the start, except for the gauges.
type Stats struct {
	// Gauges, as of the last step.
	Running, Waiting   int
	BlocksUsed, Blocks int

	Steps         int
	PrefillTokens int // prompt tokens computed
	CachedTokens  int // prompt tokens from the prefix cache
	Generated     int
	PeakRunning   int // most sequences in a step
	PeakTokens    int // most tokens in a step

	Finished map[Finish]int // requests by reason
	Canceled int
}

// Stats returns a copy.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Waiting = len(e.waiting)
	s.Finished = maps.Clone(s.Finished)
	return s
}

// stepped counts a step, with what each of its owners got.
func (s *Stats) stepped(owners []*sequence, pieces []model.Piece, logits [][]float32, events []Event) {
	total := 0
	for i, q := range owners {
		n := len(pieces[i].Tokens)
		total += n
		if pieces[i].Start < len(q.Prompt) {
			s.PrefillTokens += n
		}
		if logits[i] != nil {
			s.Generated++
		}
		if f := events[i].Finish; f != "" {
			s.Finished[f]++
		}
	}
	s.Steps++
	s.PeakRunning = max(s.PeakRunning, len(owners))
	s.PeakTokens = max(s.PeakTokens, total)
}
