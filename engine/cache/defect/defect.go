// Package defect collects what was found broken, as sentences. It knows nothing
// of what they are about. A List is safe for concurrent use.
package defect

import (
	"fmt"
	"slices"
	"sync"
)

// List is what was found, in the order it was, each sentence once. The zero
// List is empty.
type List struct {
	mu   sync.Mutex
	said []string // guarded by mu
}

// Add says a sentence.
func (d *List) Add(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.said, s) {
		d.said = append(d.said, s)
	}
}

// All is every sentence so far.
func (d *List) All() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.said)
}
