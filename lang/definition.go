package lang

import "time"

// Definition describes a serving system: how to ask its help, serve with it
// and know that it is well. Definitions are HCL files in stdlib/frameworks or
// beside the campaign; a new framework needs no Go.
type Definition struct {
	Name     string
	Source   string // file it was read from
	Helps    []Help // "server" is required unless the framework is a URL
	Version  *Version
	Server   Server
	Flags    FlagRules
	Failures []FailureRule
	Native   []string // command of its own benchmark client, for the record
	Profiler *Profiler
	Metrics  map[string]string // neutral name → server metric
	Sources  []string          // patchable paths
	Range    Range
}

// Help is one help text: "server" has the flags that a candidate may pass;
// others ("bench", "gateway") are kept for the record. Programs wrap their text
// at COLUMNS, so a caller sets it to the same number everywhere.
type Help struct {
	Name    string
	Command []string // template, see Server.Command
	Stderr  bool     // the text is on stderr
}

// Version asks the program for its version; Pattern's first group is it. The
// pattern is searched in standard output, then in standard error.
type Version struct {
	Command []string
	Pattern string
}

// Server is how to serve. In Command, {program} is the program, {model} the
// model's path or id, {served_name} the model's id as clients call it, {host},
// {port}, {flags} the rendered flags (a word of its own, replaced by many). A
// flag's value is always a word of its own after the flag: not every program
// takes --flag=value. A Server without a Command cannot be started: its
// framework is a URL.
type Server struct {
	Command     []string
	Program     string // {program} inside an image
	FlagStyle   string // kebab (--a-b), snake (--a_b), or go (-a-b)
	Booleans    string // bare (--x; false is left out), value (--x true), or pair (--x / --no-x)
	Env         map[string]string
	Health      string // path
	Models      string // path of the model list
	Identity    *Identity
	Completions string // path
	Chat        string // path
	Metrics     string // path
	Stop        StopTimes
}

// Identity is a second proof that the server is ours: GET Path contains Contains.
type Identity struct{ Path, Contains string }

// StopTimes bound the steps of bringing the server down.
type StopTimes struct{ First, Second time.Duration }

// FlagRules says what is known of the system's flags by role.
type FlagRules struct {
	Context    string // flag that bounds the sequence length; "" if none
	ContextPer string // flag that Context is divided by; "" if a request may have all of it
	// ContextFromModel: without Context the program takes the model's own.
	ContextFromModel bool
	Parallel         []string          // flags whose product is the GPU count
	Memory           string            // flag of the memory share
	Fixed            []Flag            // always passed
	NotSearched      map[string]string // flag → reason it may not stand in a search space
	Aliases          map[string]string // our spelling → the system's
	Rules            []FlagRule
}

// Profiler says how the system's profiler is armed and driven. Texts may hold
// {dir}, {stage}, {steps} and {range}.
type Profiler struct {
	Flags       []Flag
	Env         map[string]string
	Start, Stop *Call // nil with Offline
	Offline     bool
	Mapping     *Mapping // nil: no mapping trace is taken
}

// Mapping is what a mapping trace is armed with beside, or in place of, what
// the profiler block says.
type Mapping struct {
	Flags []Flag
	Env   map[string]string
	Body  string // "" sends that of Start
}

// Call is one POST to the server; an empty Body sends none.
type Call struct{ Path, Body string }

// FlagRule says that one flag needs another, or excludes it. One of Needs and
// Excludes is set.
type FlagRule struct{ Name, Flag, Needs, Excludes, Because string }

// FailureRule turns text of the server's log into a failure class.
type FailureRule struct {
	Class string
	Match string // regular expression
}
