package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/profile"
	"github.com/sotabuild/sotabuild/stdlib/search"
)

// profileOptions are the flags of profile.
type profileOptions struct {
	framework, scenario, candidate, out string
	again                               bool
}

func profileCommand(a *app) *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use:   "profile FRAMEWORK",
		Short: "Trace one candidate's prefill and decode, and show where the time goes",
		Long: "Starts the candidate's server with its profiler armed, warms it up, records prefill\n" +
			"(the scenario's input, one token of answer) and decode (one token of prompt, the\n" +
			"scenario's output), and writes the kernel, overlap and fuse tables of each.\n" +
			"A profile that the store has already is not taken again.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.framework = args[0]
			c, err := a.load()
			if err != nil {
				return err
			}
			if err := prepare.Runnable(c); err != nil {
				return fail(codeUsage, err)
			}
			store, err := cache.OpenLocal(a.storeDir(), cache.Options{Command: "sotabuild profile"})
			if err != nil {
				return err
			}
			return errors.Join(a.profile(cmd.Context(), store, c, o), store.Close())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.scenario, "scenario", "", "the scenario whose lengths are used; needed where there are several")
	f.StringVar(&o.candidate, "candidate", "baseline", "the candidate's name, as 'sotabuild show' prints it")
	f.StringVar(&o.out, "out", "", "folder for traces and tables (default STORE/profiles)")
	f.BoolVar(&o.again, "again", false, "take the profiles again although the store has them")
	return cmd
}

// profile runs the profile nodes of one candidate in the campaign's store.
func (a *app) profile(ctx context.Context, store *cache.Local, c *lang.Campaign, o profileOptions) error {
	subject, err := subjectOf(c, o)
	if err != nil {
		return fail(codeUsage, err)
	}
	s, err := a.open(ctx, store, c)
	if err != nil {
		return err
	}
	decls, err := profile.Declare(c, s.Facts, subject)
	if err != nil {
		return fail(codeUsage, err)
	}
	g, problems := compile.Build(decls, s.Facts.Env)
	if len(problems) > 0 {
		return problemsError(problems)
	}
	prepared := *s.Prepared
	prepared.Graph, prepared.Unasked = g, nil
	s.Prepared = &prepared
	var plan planOptions
	if o.again {
		for _, d := range decls {
			plan.replace = append(plan.replace, d.Addr)
		}
	}
	interrupt, stop := interrupts()
	defer stop()
	r := run{app: a, store: store, id: newRunID(), interrupt: interrupt, started: time.Now(), ends: map[string]event.Event{}}
	sum, err := r.once(ctx, s, plan)
	if err != nil {
		return err
	}
	a.remember(s)
	for _, n := range sum.FailedNodes {
		r.explainFailure(n)
	}
	switch {
	case sum.Interrupted:
		return fail(codeInterrupted, errors.New("interrupted; what was finished is kept"))
	case len(sum.FailedNodes) > 0:
		return done(codeNodeFailed)
	}
	out := o.out
	if out == "" {
		out = filepath.Join(a.storeDir(), "profiles")
	}
	return a.writeProfiles(s, subject, filepath.Join(out, subject.Framework.Label, subject.Scenario.Name))
}

// subjectOf finds what the command line names, or says what there is.
func subjectOf(c *lang.Campaign, o profileOptions) (profile.Subject, error) {
	var s profile.Subject
	var labels, scenarios, candidates []string
	for _, fw := range campaign.Compared(c) {
		labels = append(labels, fw.Label)
		if fw.Label == o.framework {
			s.Framework = fw
		}
	}
	if s.Framework.Definition == nil {
		return s, fmt.Errorf("the campaign compares no framework %q; write one of %s", o.framework, strings.Join(labels, ", "))
	}
	for _, sc := range c.Load.Scenarios {
		scenarios = append(scenarios, sc.Name)
	}
	i := slices.Index(scenarios, o.scenario)
	switch {
	case o.scenario == "" && len(scenarios) == 1:
		i = 0
	case o.scenario == "":
		return s, fmt.Errorf("the campaign has several scenarios; write the slow one with --scenario, one of %s (R141)", strings.Join(scenarios, ", "))
	case i < 0:
		return s, fmt.Errorf("there is no scenario %q; write one of %s", o.scenario, strings.Join(scenarios, ", "))
	}
	s.Scenario = c.Load.Scenarios[i]
	all := search.Expand(s.Framework.Flags, s.Framework.Search)
	for _, cand := range all {
		candidates = append(candidates, cand.Name)
	}
	if i = slices.Index(candidates, o.candidate); i < 0 {
		return s, fmt.Errorf("framework %q has no candidate %q; write one of %s", o.framework, o.candidate, strings.Join(candidates, ", "))
	}
	s.Candidate = all[i]
	return s, nil
}

// profileFiles are the outputs that are written out, by their names there.
var profileFiles = []struct{ output, file string }{
	{"tables_md", "tables.md"}, {"tables_json", "tables.json"}, {"tables_csv", "tables.csv"}, {"summary", "summary.json"},
}

// writeProfiles writes each stage's tables and trace to a folder of its own
// and prints where the tables are.
func (a *app) writeProfiles(s *session, subject profile.Subject, root string) error {
	p, err := makePlan(s, planOptions{})
	if err != nil {
		return err
	}
	for _, stage := range profile.Stages {
		id, err := s.node(subject.Addr(stage))
		if err != nil {
			return err
		}
		rec := p.Nodes[id].Record
		if rec == nil {
			return fmt.Errorf("%s has no result in the store although it ran", subject.Addr(stage))
		}
		dir := filepath.Join(root, string(stage))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the folder of profiles: %w", err)
		}
		for _, f := range profileFiles {
			if err := s.writeOutput(rec, f.output, filepath.Join(dir, f.file)); err != nil {
				return err
			}
		}
		if err := s.writeTrace(rec, dir); err != nil {
			return err
		}
		for _, w := range rec.Warnings {
			fmt.Fprintf(a.err, "warning: %s: %s\n", rec.Node, w)
		}
		fmt.Fprintf(a.out, "%s: %s\n", stage, relative(filepath.Join(dir, "tables.md")))
	}
	return nil
}

func (s *session) writeOutput(rec *cache.Record, output, path string) error {
	b, err := s.store.Bytes(rec.Output(output))
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// writeTrace names the trace by what it is, so that viewers open it.
func (s *session) writeTrace(rec *cache.Record, dir string) error {
	b, err := s.store.Bytes(rec.Output("trace"))
	if err != nil {
		return err
	}
	name := "trace.json"
	if bytes.HasPrefix(b, []byte("\x1f\x8b")) {
		name += ".gz"
	}
	return os.WriteFile(filepath.Join(dir, name), b, 0o644)
}
