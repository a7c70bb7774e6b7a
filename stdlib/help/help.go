// Package help reads a program's own help text: which flags it knows, their
// aliases, types, choices and defaults; and checks a candidate's flags against
// it before any server starts (R056, R058). It is a function of text: it runs
// nothing and knows no framework by name.
//
// Parse reads the forms of argparse, click, clap, Go's flag packages and
// llama.cpp's own printer, at any column width. What a text does not say stays
// unknown: a metavar such as PORT is no type, and a value is refused only
// where the text itself rules it out.
package help

import "github.com/sotabuild/sotabuild/stdlib/result"

// Flag is one flag of a help text.
type Flag struct {
	Name    string   `json:"name"` // the longest spelling, with dashes: --max-num-seqs
	Aliases []string `json:"aliases,omitempty"`
	// Negations are spellings that switch the flag off (--no-x).
	Negations []string `json:"negations,omitempty"`
	Type      Type     `json:"type"`
	Meta      string   `json:"meta,omitempty"`    // the value's name in the help: N, {a,b}
	Choices   []string `json:"choices,omitempty"` // nil: any value of the type
	Default   *string  `json:"default,omitempty"` // nil: the help does not say
	// Removed is the help's own word that the flag is gone or deprecated; Gone
	// tells the two apart.
	Removed string `json:"removed,omitempty"`
	// Keyed means that the keys of its JSON value may be given one by one, as
	// flags of their own that are in no list: --flag.key value.
	Keyed bool `json:"keyed,omitempty"`
	Line  int  `json:"line"` // of the help text, from 1
}

// Type is what a flag's value is, as far as the help says.
type Type string

// The types. Any means that it takes a value of unknown type.
const (
	None   Type = "none" // no value
	Any    Type = "any"
	Int    Type = "int"
	Float  Type = "float"
	String Type = "string"
)

// Given is one flag that a candidate would pass.
type Given struct {
	Name  string `json:"name"`  // as on the command line: --max-num-seqs
	Value string `json:"value"` // text; "" with Bare
	Bare  bool   `json:"bare"`
}

// Finding is one flag that cannot be passed.
type Finding struct {
	Flag   string       `json:"flag"`
	Class  result.Class `json:"class"` // unknown_flag | bad_flag_value
	Reason string       `json:"reason"`
	Hint   string       `json:"hint,omitempty"` // "did you mean --max-num-seqs?"
}
