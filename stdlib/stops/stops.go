// Package stops holds the stop predicates that every loop has, written in the
// campaign language so that a user can read what ends a loop. It holds the file
// and nothing else; package lang checks and evaluates it.
//
// A loop ends as reached only through a predicate with reached = true. A
// campaign may add predicates of its own and cannot change these (R195).
package stops

import _ "embed"

// Name is the file's name in diagnostics, and HCL its text.
const Name = "stops.hcl"

// HCL is what lang.Stops reads. It names the predicates in the order in which
// they are asked; the first that holds ends the loop.
//
//go:embed stops.hcl
var HCL []byte
