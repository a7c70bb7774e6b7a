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
	framework, scenario, candidate, out, stage string
	traces, mapping                            []string // made apart
	again, formalOnly                          bool
}

func profileCommand(a *app) *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use:   "profile FRAMEWORK",
		Short: "Trace one candidate's prefill and decode, and show where the time goes",
		Long: "Starts the candidate's server with its profiler armed, warms it up, records prefill\n" +
			"(the scenario's input, one token of answer) and decode (one token of prompt, the\n" +
			"scenario's output), and writes the kernel, overlap and fuse tables of each. Where the\n" +
			"framework's definition says how graphs are turned off, a second server is profiled so,\n" +
			"and lends its operators, source lines and shapes to the tables.\n" +
			"A system that cannot be profiled while it serves gives its traces with --trace, or with\n" +
			"trace blocks of the campaign.\n" +
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
	f.StringVar(&o.stage, "stage", "", "prefill or decode alone")
	f.StringArrayVar(&o.traces, "trace", nil, "`PATH` of a trace that was made apart, a file or folder; nothing is started then")
	f.StringArrayVar(&o.mapping, "mapping", nil, "the same `PATH` of its mapping trace")
	f.BoolVar(&o.formalOnly, "formal-only", false, "take no mapping trace")
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
	stages, decls, err := a.declareProfiles(s, c, subject, o)
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
	a.remember(s.ground)
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
	return a.writeProfiles(s, subject, stages, filepath.Join(out, subject.Framework.Label, subject.Scenario.Name))
}

// declareProfiles declares what is asked for: traces that were made apart,
// named by flags, else by the campaign's trace blocks, else live ones.
func (a *app) declareProfiles(s *session, c *lang.Campaign, subject profile.Subject, o profileOptions) ([]profile.Stage, []compile.Decl, error) {
	stages := profile.Stages
	if o.stage != "" {
		if !slices.Contains(stages, profile.Stage(o.stage)) {
			return nil, nil, fmt.Errorf("--stage %q: write prefill or decode", o.stage)
		}
		stages = []profile.Stage{profile.Stage(o.stage)}
	}
	if len(o.mapping) > 0 && len(o.traces) == 0 {
		return nil, nil, errors.New("--mapping is of a trace that was made apart; name that one with --trace")
	}
	var list []profile.Import
	for _, stage := range stages {
		i := profile.Import{Stage: stage, Paths: o.traces, Said: o.stage != "", Mapping: o.mapping}
		if len(o.traces) == 0 {
			i = blocksOf(c, subject.Framework.Label, stage)
		}
		if len(i.Paths) > 0 {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		decls, err := profile.Declare(c, s.Facts, subject, stages, !o.formalOnly)
		return stages, decls, err
	}
	stages = nil
	for _, i := range list {
		stages = append(stages, i.Stage)
	}
	decls, err := profile.DeclareImported(subject, list, c.GPUs == nil, s.files.File)
	return stages, decls, err
}

// blocksOf is the traces of a framework's stage that the campaign names.
func blocksOf(c *lang.Campaign, framework string, stage profile.Stage) profile.Import {
	i := profile.Import{Stage: stage, Said: true}
	for _, t := range c.Run.Traces {
		switch {
		case t.Framework != framework:
		case t.Stage == string(stage):
			i.Paths = append(i.Paths, t.Path)
		case t.Stage == "mixed":
			i.Paths, i.Said = append(i.Paths, t.Path), false
		}
	}
	return i
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

// tableFiles are the outputs of the tables, by their names on disk.
var tableFiles = []struct{ output, file string }{
	{"tables_md", "tables.md"}, {"tables_json", "tables.json"}, {"tables_csv", "tables.csv"},
}

// writeProfiles writes each stage's tables and traces to a folder of its own
// and prints where the tables are.
func (a *app) writeProfiles(s *session, subject profile.Subject, stages []profile.Stage, root string) error {
	p, err := makePlan(s.Graph, s.store, planOptions{})
	if err != nil {
		return err
	}
	record := func(addr string) (*cache.Record, error) {
		id, err := s.node(addr)
		if err != nil {
			return nil, err
		}
		if rec := p.Nodes[id].Record; rec != nil {
			return rec, nil
		}
		return nil, fmt.Errorf("%s has no result in the store although it ran", addr)
	}
	for _, stage := range stages {
		dir := filepath.Join(root, string(stage))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the folder of profiles: %w", err)
		}
		rec, err := record(subject.TablesAddr(stage))
		if err != nil {
			return err
		}
		for _, f := range tableFiles {
			if err := s.writeOutput(rec, f.output, filepath.Join(dir, f.file)); err != nil {
				return err
			}
		}
		for _, role := range []profile.Role{profile.Formal, profile.Mapping} {
			addr := subject.Addr(stage, role)
			if _, ok := s.Graph.Lookup(addr); !ok {
				continue // no mapping trace was taken
			}
			rec, err := record(addr)
			if err != nil {
				return err
			}
			if err := s.writeTrace(rec, dir, role); err != nil {
				return err
			}
			for _, w := range rec.Warnings {
				fmt.Fprintf(a.err, "warning: %s: %s\n", rec.Node, w)
			}
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

// writeTrace writes a trace and its summary, and names the trace by what it is,
// so that viewers open it.
func (s *session) writeTrace(rec *cache.Record, dir string, role profile.Role) error {
	prefix := ""
	if role == profile.Mapping {
		prefix = "mapping."
	}
	if err := s.writeOutput(rec, "summary", filepath.Join(dir, prefix+"summary.json")); err != nil {
		return err
	}
	b, err := s.store.Bytes(rec.Output("trace"))
	if err != nil {
		return err
	}
	name := prefix + "trace.json"
	if bytes.HasPrefix(b, []byte("\x1f\x8b")) {
		name += ".gz"
	}
	return os.WriteFile(filepath.Join(dir, name), b, 0o644)
}
