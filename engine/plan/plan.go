// Package plan says of every node what apply would do and why, before anything
// starts. Make is a pure function of a graph and a store's records; it starts
// nothing and writes nothing.
//
// A stale node's reason is computed from manifests (key.Diff), so it cannot
// differ from the key. One root cause is one reason; the nodes that follow
// from it are counted, not repeated. The package knows no campaign and no
// metric, and prints nothing but the stable text and JSON forms of a Plan.
package plan

import (
	"fmt"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan/origin"
)

// Verdict is what plan says of a node.
type Verdict byte

// The verdicts, with the marks that people see.
const (
	New     Verdict = '+' // nothing like it was ever run
	Stale   Verdict = '~' // it was run with other facts
	Cached  Verdict = '=' // its result is there
	Later   Verdict = '?' // decided when another node has run
	Blocked Verdict = '!' // a gate or a failed input keeps it from running
	Sealed  Verdict = '#' // frozen by the seal
	Skipped Verdict = '-' // by the user or by the framework; Reason says by whom
)

// Word is the verdict in one word, for machines and for totals.
func (v Verdict) Word() string {
	switch v {
	case New:
		return "new"
	case Stale:
		return "stale"
	case Cached:
		return "cached"
	case Later:
		return "later"
	case Blocked:
		return "blocked"
	case Sealed:
		return "sealed"
	case Skipped:
		return "skipped"
	}
	panic(fmt.Sprintf("plan: %d is no verdict", v))
}

// Cause says why a node has its verdict.
type Cause string

// The causes.
const (
	CauseNone     Cause = ""           // cached
	CauseNew      Cause = "new"        // no record of this address or anything near it
	CauseChanged  Cause = "changed"    // Changes says what
	CauseInput    Cause = "input"      // waits for Root's output, so its key is not known
	CauseRetry    Cause = "retry"      // the last run failed in a way that is not kept
	CauseRejected Cause = "rejected"   // its samples are too few, too old, or not acceptable
	CauseReplace  Cause = "replace"    // asked for by --replace: runs whatever its key is or will be
	CauseDefect   Cause = "defect"     // its stored output is missing or broken
	CauseSkip     Cause = "skip"       // Text says who and why
	CauseUpstream Cause = "upstream"   // an input is skipped or blocked
	CauseTarget   Cause = "not_target" // outside --target
)

// Reason is why a node has its verdict.
type Reason struct {
	Cause Cause
	// Root is the node that this one waits for (CauseInput), or that blocks it
	// (CauseUpstream), through any number of others; its own id otherwise.
	Root graph.NodeID
	// Changes are the differing facts, old → new, for CauseChanged.
	Changes []key.Change
	// Was is the address of the record compared with, when it is not the
	// node's own.
	Was  string
	Text string
}

// Node is one node's line in a plan.
type Node struct {
	Verdict Verdict
	Reason  Reason
	Key     key.Key       // zero when it cannot be known yet
	Record  *cache.Record // the hit, when Cached; the failure, when given up
	Past    Past          // of a node that may run
}

// Past is what a node took the last time; zero is not known.
type Past struct {
	Seconds float64
	Setup   float64 // of its task before, which the nodes of a batch share
}

// Counts are totals by what apply would do.
type Counts struct {
	New, Stale, Cached, Later, Blocked, Sealed, Skipped int
}

// Changes is the number of nodes that may run.
func (c Counts) Changes() int { return c.New + c.Stale + c.Later }

// Plan is a verdict for every node of a graph, by NodeID.
type Plan struct {
	Nodes  []Node
	Counts Counts
	// Roots are the nodes that are stale or new for a reason of their own, in
	// graph order, each with the number of nodes that follow from it.
	Roots []Root
	// Estimate is what past runs say of the work ahead.
	Estimate Estimate
	// Serial is the store's serial that the plan was made from.
	Serial uint64
	// Budget bounds what running the plan may use; Make leaves it empty.
	Budget Budget
	// Rounds are the totals of what is run beside the graph, for Totals; Make
	// leaves them empty.
	Rounds Counts
	made   origin.Names // who made the inputs that changed
}

// Budget bounds a run. Zero fields bound nothing.
type Budget struct {
	GPUSeconds float64   // seconds times GPUs
	Deadline   time.Time // nothing starts that would not end before
}

// Empty reports whether nothing is bound.
func (b Budget) Empty() bool { return b == Budget{} }

// Root is one root cause. Downstream counts the nodes whose Reason.Root it is:
// those that wait for its output, or for the output of one that does. A node
// that follows from several roots is counted once, at that of its first
// undecided input in declared order; so the roots and their downstreams add up
// to Counts.Changes.
type Root struct {
	Node       graph.NodeID
	Downstream int
}

// Estimate adds up what the nodes that may run took the last time, each by its
// newest good record, or that of the record it was compared with, and what their
// servers took to come up, once for each batch. It is work,
// not waiting: nodes may run side by side, and a Later one may be cut off.
type Estimate struct {
	Seconds    float64
	GPUSeconds float64 // seconds times the GPUs that the node asks for
	Known      int     // nodes with such a record
	Unknown    int     // nodes without one; they add nothing
}

// Options restrict or force. A name is a node's address or a block, which is
// all its nodes. One that is neither is a Problem of the caller's input,
// returned by Make.
type Options struct {
	Targets []string // their ancestors come along
	Replace []string // to run although they are cached
	// GivenUp are addresses of nodes that have just failed: they would be tried
	// again, and are Blocked by that failure instead. An unknown one is no
	// problem.
	GivenUp []string
	// Now is when samples are judged, for kinds that mind their age; the zero
	// time finds none too old.
	Now time.Time
}
