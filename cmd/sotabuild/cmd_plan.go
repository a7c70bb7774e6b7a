package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// planOptions are the flags that plan and apply share.
type planOptions struct {
	targets, replace []string
	detailed         bool
	all              bool
}

func (o *planOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.targets, "target", nil, "only this node or block and what it needs; may be repeated")
	cmd.Flags().StringArrayVar(&o.replace, "replace", nil, "run this node although it is cached; may be repeated")
}

func planCommand(a *app) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use: "plan", Short: "Say what is stale and why; start nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.view(cmd.Context())
			if err != nil {
				return err
			}
			p, err := makePlan(s, o)
			if err != nil {
				return err
			}
			if err := a.showPlan(a.out, s, p, o.all); err != nil {
				return err
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
	cmd.Flags().BoolVar(&o.all, "all", false, "list every node on a line of its own, cached ones too")
	return cmd
}

func makePlan(s *session, o planOptions) (*plan.Plan, error) {
	p, problems := plan.Make(s.Graph, s.store, plan.Options{Targets: o.targets, Replace: o.replace})
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
	if len(s.Unasked) > 0 {
		fmt.Fprintf(w, "The help of %d programs is not known yet: apply asks for it first and checks every flag before the first server starts.\n", len(s.Unasked))
	}
	return nil
}
