package engine

import (
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/model"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/vocab"
)

// step computes one step and tells the requests what came of it.
func (e *Engine) step() {
	owners, pieces := e.plan()
	logits := e.compute(owners, pieces)
	events := make([]Event, len(owners))
	for i, s := range owners {
		e.advance(s, len(pieces[i].Tokens))
		if logits[i] == nil {
			continue
		}
		events[i] = s.next(model.Sample(logits[i], s.Temperature, s.draw))
		if s.over = events[i].Finish != ""; s.over {
			e.blocks.release(s.table)
		}
	}
	e.running = slices.DeleteFunc(e.running, func(s *sequence) bool { return s.over })

	// Counted before they are told, so that a client that has its answer also
	// finds it in the counts.
	e.mu.Lock()
	e.stats.stepped(owners, pieces, logits, events)
	e.mu.Unlock()
	for i, s := range owners {
		if logits[i] != nil {
			s.events <- events[i]
		}
	}
}

// compute runs the model, recorded while a profile is taken.
func (e *Engine) compute(owners []*sequence, pieces []model.Piece) [][]float32 {
	rec := e.profile.Load()
	if rec == nil {
		return e.runner.Step(pieces)
	}
	step := rec.Begin(annotation(owners, pieces))
	e.runner.Lap = step.Lap
	logits := e.runner.Step(pieces)
	e.runner.Lap = nil
	step.End()
	return logits
}

// annotation names a step as vLLM does: how many sequences read their prompts
// and how many answer, each with its tokens.
func annotation(owners []*sequence, pieces []model.Piece) string {
	var reading, read, answering, answered int
	for i, s := range owners {
		if n := len(pieces[i].Tokens); pieces[i].Start < len(s.Prompt) {
			reading, read = reading+1, read+n
		} else {
			answering, answered = answering+1, answered+n
		}
	}
	return fmt.Sprintf("execute_context_%d(%d)_generation_%d(%d)", reading, read, answering, answered)
}

// plan chooses the pieces of the next step and whose they are. Sequences that
// have begun to answer come first: a long prompt must not make them wait.
func (e *Engine) plan() (owners []*sequence, pieces []model.Piece) {
	budget := e.config.MaxTokens
	take := func(answering bool) {
		for _, s := range e.running {
			n := min(len(s.tokens)-s.done, budget)
			if n == 0 || answering != (len(s.tokens) > len(s.Prompt)) {
				continue
			}
			budget -= n
			owners = append(owners, s)
			pieces = append(pieces, model.Piece{
				Tokens: s.tokens[s.done : s.done+n],
				Start:  s.done,
				Blocks: s.table,
				Logits: s.done+n == len(s.tokens),
			})
		}
	}
	take(true)
	take(false)
	return owners, pieces
}

// advance notes that n more tokens are in the cache and offers the blocks that
// became full.
func (e *Engine) advance(s *sequence, n int) {
	for b := s.done / model.BlockSize; (b+1)*model.BlockSize <= s.done+n; b++ {
		s.serial = e.blocks.filled(s.table[b], s.serial, s.tokens[b*model.BlockSize:(b+1)*model.BlockSize])
	}
	s.done += n
}

// next takes the sequence's next token and returns its event.
func (s *sequence) next(id vocab.ID) Event {
	s.tokens = append(s.tokens, id)
	event := Event{Token: id, Cached: s.cached}
	stopped := id == vocab.EOS && !s.IgnoreEOS
	if !stopped {
		event.Text, event.Held, stopped = s.text.Add(id)
	}
	switch {
	case stopped:
		event.Finish = Stop
	case len(s.tokens)-len(s.Prompt) == s.MaxTokens:
		event.Finish = Length
	default:
		return event
	}
	event.Text += s.text.Flush()
	event.Held = false
	return event
}
