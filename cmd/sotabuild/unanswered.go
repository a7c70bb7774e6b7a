package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/report"
)

// unanswered says what this apply was asked and has no answer to although every
// node ran: a framework without a number, a scenario without a winner because no
// side came through its repeats.
func (r *run) unanswered(s *session, v report.View) error {
	var hints []string
	causes := r.withoutResult(s, v)
	if causes != nil {
		hints = append(hints, "`sotabuild show` lists every candidate with the reason it failed")
	}
	for _, sc := range v.WithoutWinner() {
		i := slices.IndexFunc(s.Declared.Winners, func(w campaign.Winner) bool { return w.Scenario == sc.Name })
		if !r.asked(s, s.Declared.Winners[i].Addr) {
			continue
		}
		causes = append(causes, sc.Name+": "+v.Winner(sc))
		hints = append(hints, "once that is mended, `sotabuild apply"+again(sc.Repeats)+"` takes the repeats anew")
	}
	if causes == nil {
		return nil
	}
	return fail(codeNodeFailed, errors.New(strings.Join(causes, "\n")), hints...)
}

// asked reports whether this apply was to see to a node: no target leaves it out.
func (r *run) asked(s *session, addr string) bool {
	id, ok := s.Graph.Lookup(addr)
	return ok && r.plan.Nodes[id].Reason.Cause != plan.CauseTarget
}

// withoutResult says which frameworks have no number in a scenario, and why.
func (r *run) withoutResult(s *session, v report.View) []string {
	asked := map[string]bool{}
	for _, c := range s.Declared.Cells {
		if r.asked(s, c.Addr) {
			asked[c.Framework+" in "+c.Scenario.Name] = true
		}
	}
	var out []string
	for _, name := range v.WithoutResult() {
		if !asked[name] {
			continue
		}
		text := "no result for " + name
		var who sharing
		for _, sc := range v.Scenarios {
			for _, c := range sc.Cells {
				if c.Framework+" in "+sc.Name == name {
					who.add(failing{reason: fmt.Sprintf("%s: %s", c.Row.Class, oneLine(c.Row.Reason))}, c.Candidate)
				}
			}
		}
		for _, f := range who.order {
			text += fmt.Sprintf("\n  %s: %s", strings.Join(who.names[f], ", "), f.reason)
		}
		out = append(out, text)
	}
	return out
}

// again are the flags that take every round of repeats anew.
func again(x *report.Repeats) string {
	var flags []string
	for _, side := range x.Sides {
		for _, run := range side.Repeats {
			round := run.Address[:strings.LastIndexByte(run.Address, '.')]
			if flag := " --replace '" + round + "'"; !slices.Contains(flags, flag) {
				flags = append(flags, flag)
			}
		}
	}
	return strings.Join(flags, "")
}
