package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/plan/markdown"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
)

// planOptions are the flags that plan and apply share.
type planOptions struct {
	targets, replace []string
	detailed         bool
	all              bool
	out, format      string
	gpuHours         float64
	deadline, trace  string
}

func (o *planOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.targets, "target", nil, "only this node or block and what it needs; may be repeated")
	cmd.Flags().StringArrayVar(&o.replace, "replace", nil, "run this node although it is cached; may be repeated")
}

func planCommand(a *app) *cobra.Command {
	var o planOptions
	var refresh bool
	cmd := &cobra.Command{
		Use: "plan", Short: "Say what is stale and why; start nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.stale = !refresh
			if a.stale && o.out != "" {
				return fail(codeUsage, errors.New("a plan that is saved must be made of facts that were read; leave --refresh=false or --out out"))
			}
			s, err := a.view(cmd.Context())
			if err != nil {
				return err
			}
			p, err := makePlan(s, o)
			if err != nil {
				return err
			}
			if err := a.writePlan(s, p, o); err != nil {
				return err
			}
			if o.out != "" {
				if err := a.savePlan(s, p, o); err != nil {
					return err
				}
			}
			a.remember(s)
			if o.detailed && p.Counts.Changes() > 0 {
				return done(codeChanges)
			}
			return nil
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 2 when apply would run something")
	cmd.Flags().BoolVar(&refresh, "refresh", true, "read files, programs and GPUs again; false takes the facts of the last time")
	cmd.Flags().BoolVar(&o.all, "all", false, "list every node on a line of its own, cached ones too")
	cmd.Flags().StringVar(&o.out, "out", "", "save the plan to this file, for `apply FILE`")
	cmd.Flags().StringVar(&o.format, "format", "", "markdown: a comment for a pull request, at most 65,536 characters")
	return cmd
}

func makePlan(s *session, o planOptions) (*plan.Plan, error) {
	p, problems := plan.Make(s.Graph, s.store, plan.Options{Targets: o.targets, Replace: o.replace, Now: time.Now()})
	if len(problems) > 0 {
		return nil, fail(codeUsage, problemsError(problems), "`sotabuild plan --all` lists every node")
	}
	return p, nil
}

// problemsError prints every problem of addresses at once.
type problemsError []compile.Problem

func (e problemsError) Error() string {
	s := ""
	for i, p := range e {
		if i > 0 {
			s += "\n"
		}
		s += fmt.Sprintf("%s: %s", p.Addr, p.Text)
	}
	return s
}

// writePlan prints a plan in the form that is asked for.
func (a *app) writePlan(s *session, p *plan.Plan, o planOptions) error {
	switch o.format {
	case "":
		return a.showPlan(a.out, s, p, o.all)
	case "markdown":
		fmt.Fprint(a.out, markdown.Plan(s.Campaign.Name, p, s.Graph, markdown.Limit))
		return nil
	}
	return fail(codeUsage, fmt.Errorf("--format %q: write markdown, or --json without --format", o.format))
}

// showPlan prints a plan for people or as JSON.
func (a *app) showPlan(w io.Writer, s *session, p *plan.Plan, all bool) error {
	if a.json {
		b, err := json.MarshalIndent(p.Document(s.Graph), "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\n", b)
		return nil
	}
	st := a.style(w)
	lines := p.Lines(s.Graph)
	if all {
		lines = p.All(s.Graph)
	}
	for _, l := range lines {
		fmt.Fprintf(w, "%s %s  %s\n", st.mark(l.Mark), l.Addr, st.dim(l.Text))
	}
	fmt.Fprintln(w, st.bold(p.Totals()))
	if e := p.Estimate.String(); e != "" {
		fmt.Fprintln(w, st.dim(e))
	}
	helps := slices.DeleteFunc(slices.Clone(s.Unasked), func(addr string) bool { return addr == campaign.HostAddr || addr == campaign.ClientAddr })
	if len(helps) > 0 {
		fmt.Fprintf(w, "The help of %d programs is not known yet: apply asks for it first and checks every flag before the first server starts.\n", len(helps))
	}
	if slices.Contains(s.Unasked, campaign.ClientAddr) {
		fmt.Fprintln(w, "The client was not calibrated on this machine within a week: apply does so first, in some ten seconds.")
	}
	if slices.Contains(s.Unasked, campaign.HostAddr) {
		fmt.Fprintln(w, "The GPUs were not looked at within a day: apply does so first, and stops where a field is out of range.")
	}
	return nil
}
