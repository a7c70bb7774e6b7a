package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/plan/compare"
)

func explainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "explain NODE | explain A B", Short: "Say what a node is, what is recorded of it, and why it would or would not run; or what differs between two records",
		Long: "explain NODE prints key, manifest, history, and why the node would or would not run.\n" +
			"explain A B prints what differs between two records. A record is a serial (14), the\n" +
			"record of a node with a serial (NODE@14), or a node, which is its newest record.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return a.compareRecords(args[0], args[1])
			}
			if err := a.named(); err != nil {
				return err
			}
			s, err := a.view(cmd.Context())
			if err != nil {
				return err
			}
			e, err := s.explain(args[0])
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(e.Document()); err != nil {
					return err
				}
			} else {
				fmt.Fprint(a.out, e.Text())
			}
			a.remember(s.ground)
			return nil
		},
		ValidArgsFunction: a.completeNodes,
	}
}

// explain says what a node of the campaign, or of a round beside it, is.
func (s *session) explain(addr string) (plan.Explanation, error) {
	f, err := s.find(addr)
	if err != nil {
		return plan.Explanation{}, err
	}
	return plan.Explain(f.graph, f.plan, s.store, f.id), nil
}

// compareRecords prints what differs between two records. It needs no campaign.
func (a *app) compareRecords(x, y string) error {
	dir, err := a.existing()
	if err != nil {
		return err
	}
	store, err := cache.OpenReader(dir)
	if err != nil {
		return err
	}
	defer store.Close() // only read
	var pair [2]*cache.Record
	for i, name := range []string{x, y} {
		if pair[i], err = findRecord(store, name); err != nil {
			return err
		}
	}
	d, err := compare.Records(pair[0], pair[1])
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(d.Document())
	}
	fmt.Fprint(a.out, d.Text())
	return nil
}

// findRecord reads "14", "NODE@14" or "NODE".
func findRecord(store *cache.Snapshot, name string) (*cache.Record, error) {
	node, number := "", name
	if i := strings.LastIndexByte(name, '@'); i >= 0 {
		node, number = name[:i], name[i+1:]
	}
	serial, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		if h := store.History(name); len(h) > 0 {
			return h[len(h)-1], nil
		}
		return nil, fail(codeUsage, fmt.Errorf("%q is no record: no node of that address was ever recorded", name), "write a serial, NODE@SERIAL or NODE; `sotabuild explain NODE` lists the serials")
	}
	r := store.Record(serial)
	if r == nil {
		return nil, fail(codeUsage, fmt.Errorf("there is no record %d; the newest is %d", serial, store.Serial()))
	}
	if node != "" && r.Node != node {
		return nil, fail(codeUsage, fmt.Errorf("record %d is of %s, not of %s", serial, r.Node, node))
	}
	return r, nil
}

// printJSON writes one value as an indented document. Kernel names and commands
// are full of < and >, which stay as they are.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printLine writes one value as one line of JSON.
func (a *app) printLine(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", b)
	return err
}
