// Package creation is the registry of what sotabuild makes on a host beside a
// store's records and the folders of its tasks. What is made is written down
// before it is made, so that clean-up removes what is written down and nothing
// else (R078).
//
// Things that somebody else keeps, as a daemon keeps an image, stand in a
// Registry: the intent before, the keeper's own identity of what was made
// after. A thing is ours while it has that identity. One that has another, or
// whose maker was killed in between, may be somebody else's under the same
// name: it is never removed.
//
// Temporary files lie in the folder of the process that makes them (Temp), whose
// name says which process that is: pid, start time and boot.
//
// The package knows no daemon and no image. All functions may be called from any
// goroutine and by any number of processes.
package creation

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/executors/ledger"
)

// Thing is something that a keeper was given.
type Thing struct {
	Kind string `json:"kind"` // of the keeper: docker
	Name string `json:"name"` // as the keeper calls it
	// Keeper is the keeper's own identity, and Reach the options by which it is
	// reached: the same name may be anybody's at another one.
	Keeper string            `json:"keeper"`
	Reach  map[string]string `json:"reach,omitempty"`
	// ID is the keeper's identity of what was made; "" while it is being made.
	ID string    `json:"id,omitempty"`
	At time.Time `json:"at"`
}

func (t Thing) same(o Thing) bool {
	return t.Kind == o.Kind && t.Name == o.Name && t.Keeper == o.Keeper
}

// Registry is the file of things. One that is not there is empty.
type Registry string

// patience bounds the wait for another process that writes.
const patience = 10 * time.Second

// Intend writes down that a thing is about to be made. When it returns nil that
// is on the disk.
func (r Registry) Intend(t Thing) error {
	t.ID = ""
	t.Reach = maps.Clone(t.Reach)
	return r.change(func(list []Thing) []Thing { return append(without(list, t), t) })
}

// Made writes down what was made.
func (r Registry) Made(t Thing, id string) error {
	return r.change(func(list []Thing) []Thing {
		t.ID = id
		return append(without(list, t), t)
	})
}

// Forget takes a thing out: it is gone, or not ours.
func (r Registry) Forget(t Thing) error {
	return r.change(func(list []Thing) []Thing { return without(list, t) })
}

// Things are all that was written down, in the order of their making.
func (r Registry) Things() ([]Thing, error) { return ledger.Read[[]Thing](string(r)) }

func (r Registry) change(do func([]Thing) []Thing) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return ledger.Update(ctx, string(r), func(list *[]Thing) error {
		*list = do(*list)
		return nil
	})
}

func without(list []Thing, t Thing) []Thing { return slices.DeleteFunc(list, t.same) }
