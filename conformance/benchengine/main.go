// Command benchengine measures the engine beside ninja: the same graph, one
// input and one output file a node, everything done, nothing to do. Each
// measured run is a process of its own, from its start to its exit, as a
// person would wait for it.
//
//	benchengine          all figures, as a Markdown table with the machine's facts
//	benchengine PART     noop, keys, files, task or campaign alone
//	benchengine make …   what `benchengine` starts to prepare a graph
//	benchengine plan …   what it starts to measure: the no-op plan
//
// It prints what was measured and exits with 1 when a bound is missed, so that
// it can stand in a check. Bounds are of an idle machine.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/sotabuild/sotabuild/internal/garbage"
)

func main() {
	garbage.Spare() // as sotabuild itself
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchengine:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 0:
		return report(os.Stdout, "")
	case len(args) == 1:
		return report(os.Stdout, args[0])
	case len(args) == 4 && (args[0] == "make" || args[0] == "plan"):
		n, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		g := site{dir: args[1], shape: args[2], n: n}
		if args[0] == "make" {
			return g.make()
		}
		return g.plan(os.Stdout)
	}
	return fmt.Errorf("usage: benchengine [PART | make|plan DIR SHAPE N]")
}
