package event

import (
	"encoding/json"
	"fmt"
	"io"
)

// Lines writes each event as one line of JSON to To, one Write a line and
// unbuffered, so that a reader that follows the file never sees a torn line
// but after a crash. Its method Event is a Sink.
//
// Lines is not safe for concurrent use. It relies on the promise of Sink that
// events come from one goroutine at a time; who gives one Lines to two runs at
// once has to serialise them.
type Lines struct {
	To  io.Writer
	err error
}

// Event writes e, with V set to Version when it is zero. A Sink cannot return
// an error: the first failure is kept for Err, and nothing is written after it,
// so that what was written is a true prefix of the stream.
func (l *Lines) Event(e Event) {
	if l.err != nil {
		return
	}
	if e.V == 0 {
		e.V = Version
	}
	b, err := json.Marshal(e)
	if err != nil {
		l.err = fmt.Errorf("encoding event %s: %w", e.Type, err)
		return
	}
	if _, err := l.To.Write(append(b, '\n')); err != nil {
		l.err = fmt.Errorf("writing event %s: %w", e.Type, err)
	}
}

// Err is why events are missing from the end of the output; nil if all were
// written. Ask after the run.
func (l *Lines) Err() error { return l.err }
