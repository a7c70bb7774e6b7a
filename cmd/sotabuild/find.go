package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/stdlib/campaign/loops"
	"github.com/sotabuild/sotabuild/stdlib/campaign/rounds"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// found is a node with the graph and the plan that it stands in: the campaign's,
// or those of a round beside it.
type found struct {
	graph *compile.Graph
	plan  *plan.Plan
	id    graph.NodeID
}

// addr is the node's address.
func (f found) addr() string { return f.graph.Actions[f.id].Addr }

// find looks an address up wherever a plan may have shown it. A round stands for
// its decision.
func (s *session) find(addr string) (found, error) {
	if inRounds, _ := rounds.Split([]string{addr}, loops.Prefixes()...); inRounds != nil {
		return s.findInRounds(addr)
	}
	id, err := s.node(addr)
	if err != nil {
		return found{}, err
	}
	p, err := makePlan(s.Graph, s.store, planOptions{})
	return found{s.Graph, p, id}, err
}

// node finds an address of the campaign's graph.
func (s *session) node(addr string) (graph.NodeID, error) {
	id, err := pick(s.Graph, addr)
	if err != nil {
		return 0, fail(codeUsage, err, "`sotabuild plan --all` lists every node; quote the address for the shell")
	}
	return id, nil
}

// pick finds the one node of an address, or says what is near it.
func pick(g *compile.Graph, addr string) (graph.NodeID, error) {
	ids, problem := g.Select(addr)
	if problem != nil {
		return 0, errors.New(problem.String())
	}
	if first := g.Actions[ids[0]].Addr; first != addr {
		return 0, fmt.Errorf("%s is a block of %s; write one of them, such as %s", addr, result.Count(len(ids), "node"), first)
	}
	return ids[0], nil
}

func (s *session) findInRounds(addr string) (found, error) {
	views, err := s.loops(nil)
	if err != nil {
		return found{}, err
	}
	var names []string
	for _, v := range slices.Concat(views...) {
		names = append(names, v.Addr)
		if addr != v.Addr && !v.Has(addr) {
			continue
		}
		f, err := v.find(addr)
		if err != nil {
			return f, fail(codeUsage, err, "`sotabuild plan` shows the rounds; quote the address for the shell")
		}
		return f, nil
	}
	if names == nil {
		return found{}, fail(codeUsage, fmt.Errorf("%s: the campaign has no such loop", addr), "`sotabuild plan --all` lists every node")
	}
	return found{}, fail(codeUsage, fmt.Errorf("%s: the campaign's loops are %s", addr, strings.Join(names, ", ")), "`sotabuild plan` shows the rounds")
}

// find looks an address of the loop up in its rounds that are known.
func (v loopView) find(addr string) (found, error) {
	if v.Rounds == nil {
		return found{}, fmt.Errorf("%s has no round yet: %s", v.Addr, v.Why)
	}
	last := ""
	for _, r := range v.view.Rounds {
		last = v.Rounds.Address(r.Number)
		if v.Round(addr) != last {
			continue
		}
		if addr == last {
			addr += ".decision"
		}
		id, err := pick(r.Graph, addr)
		return found{r.Graph, r.Plan, id}, err
	}
	if v.Round(addr) == "" {
		return found{}, fmt.Errorf("%s is a loop; write one of its rounds, such as %s", v.Addr, last)
	}
	return found{}, fmt.Errorf("%s: %s has no such round; its last one is %s, and a round is known once the one before it has decided", addr, v.Addr, last)
}

// completeNodes offers the addresses of the campaign and of its known rounds.
func (a *app) completeNodes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := a.view(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	graphs, err := s.graphs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, g := range graphs {
		for i := range g.Actions {
			out = append(out, g.Actions[i].Addr)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
