package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/plan/saved"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/report"
)

// describe writes down everything that a plan was made from.
func (a *app) describe(s *session, p *plan.Plan, o planOptions, storeID string) (saved.Plan, error) {
	build, err := s.files.File(s.self)
	if err != nil {
		return saved.Plan{}, err
	}
	out := saved.New(s.Graph, p, time.Now())
	out.Tool = saved.Tool{Version: version(), Build: build}
	out.Campaign = saved.Campaign{Name: s.Campaign.Name, Files: fileDigests(s.Campaign), Vars: s.inputs.Vars, Env: s.inputs.Env}
	out.Store.ID = storeID
	out.Options = saved.Options{Targets: o.targets, Replace: o.replace}
	return out, nil
}

func fileDigests(c *lang.Campaign) map[string]key.Digest {
	files := map[string]key.Digest{}
	for _, f := range c.Files {
		files[f.Name] = key.Sum(f.Bytes)
	}
	return files
}

// savePlan writes a plan that `apply FILE` takes.
func (a *app) savePlan(s *session, p *plan.Plan, o planOptions) error {
	id, err := cache.Name(s.dir)
	if err != nil {
		return err
	}
	d, err := a.describe(s, p, o, id)
	if err != nil {
		return err
	}
	if err := saved.Write(o.out, d); err != nil {
		return err
	}
	if !a.json && o.format == "" {
		fmt.Fprintf(a.out, "Saved to %s; run exactly this with\n    %s\n", relative(o.out), a.applies(o))
	}
	return nil
}

// applies is the command line that applies a saved plan: variables are in the
// plan, what has no part in it is not.
func (a *app) applies(o planOptions) string {
	words := a.again()
	for _, flag := range []struct{ name, value string }{{"--store", a.store}, {"--executor", a.executor}} {
		if flag.value != "" {
			words = append(words, flag.name, flag.value)
		}
	}
	words = append(words, "apply")
	for _, flag := range []struct{ name, value string }{{"--max-gpu-hours", o.gpuHours}, {"--deadline", o.deadline}} {
		if flag.value != "" {
			words = append(words, flag.name, flag.value)
		}
	}
	return report.Quote(append(words, relative(o.out)))
}

// bind refuses a saved plan that is not what would be planned now, and uses it
// up otherwise.
func (a *app) bind(s *session, store *cache.Local, was saved.Plan, o planOptions) error {
	name := "plan " + was.ID
	if was.Store.ID == store.ID() && store.Spent(name) {
		return a.moved(was, []string{"it was applied before; a plan is applied once"})
	}
	p, err := makePlan(s.Graph, s.store, o)
	if err != nil {
		return a.moved(was, []string{err.Error()})
	}
	is, err := a.describe(s, p, o, store.ID())
	if err != nil {
		return err
	}
	if moved := saved.Moved(was, is, store); len(moved) > 0 {
		return a.moved(was, moved)
	}
	return store.Spend(name)
}

// follows checks the rest of a saved plan after the help texts were taken: what
// was known then must still be so.
func (a *app) follows(s *session, was saved.Plan, o planOptions) error {
	p, err := makePlan(s.Graph, s.store, o)
	if err != nil {
		return a.moved(was, []string{err.Error()})
	}
	if broken := saved.Broken(was, saved.New(s.Graph, p, time.Now()), s.store); len(broken) > 0 {
		return a.moved(was, broken)
	}
	return nil
}

// moved is the refusal of a saved plan.
func (a *app) moved(was saved.Plan, what []string) error {
	return fail(codePlanStale, fmt.Errorf("the plan of %s no longer holds:\n  %s", was.Made.Format(time.RFC3339), strings.Join(what, "\n  ")),
		"look at it again with `sotabuild plan`, and save it anew with `sotabuild plan --out FILE`")
}

// fixInputs makes the campaign be read with the saved plan's variables. One
// that is given now with another value has moved.
func (a *app) fixInputs(was saved.Plan) error {
	given, err := a.given()
	if err != nil {
		return err
	}
	var moved []string
	for _, side := range []struct {
		what     string
		now, was map[string]string
	}{{"--var", given.Vars, was.Campaign.Vars}, {"variable of the environment", given.Env, was.Campaign.Env}} {
		for _, name := range sortedNames(side.now) {
			if v, ok := side.was[name]; !ok || v != side.now[name] {
				moved = append(moved, fmt.Sprintf("%s %s: it is %q now, which is not what the plan was made with", side.what, name, side.now[name]))
			}
		}
	}
	if len(moved) > 0 {
		return a.moved(was, moved)
	}
	a.fixed = &inputs{Vars: was.Campaign.Vars, Env: was.Campaign.Env}
	return nil
}
