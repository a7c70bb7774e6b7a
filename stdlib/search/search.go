// Package search expands a bounded search into candidates and selects among
// their rows. Both are pure functions; it starts nothing and knows no server.
package search

import "github.com/sotabuild/sotabuild/lang"

// Candidate is one set of server flags.
type Candidate struct {
	// Name is "baseline" or the searched flags that differ from the base, in
	// axis order: "max_num_seqs=128,threads=2".
	Name  string
	Flags []lang.Flag // base overridden, in base order, new names last
	Base  bool
}
