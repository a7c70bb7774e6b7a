package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/plan/markdown"
	"github.com/sotabuild/sotabuild/engine/plan/saved"
	"github.com/sotabuild/sotabuild/engine/sched/budget"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/loops"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/rounds"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// planOptions are the flags that plan and apply share.
type planOptions struct {
	targets, replace []string
	givenUp          []string // by the first step of an apply
	detailed         bool
	all              bool
	out, format      string
	gpuHours         string
	deadline, trace  string
}

func (o *planOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.targets, "target", nil, "only this `NODE` or block and what it needs; may be repeated")
	cmd.Flags().StringArrayVar(&o.replace, "replace", nil, "run this `NODE` although it is cached; may be repeated")
	cmd.Flags().StringVar(&o.gpuHours, "max-gpu-hours", "", "start only what fits, by what it took the last time, and what tells most first; no round of repeats or a rate search; the rest is left to the next apply (exit 6)")
	cmd.Flags().StringVar(&o.deadline, "deadline", "", "start only what ends by then, and no round: a span (\"90m\") or a time (2026-12-01T06:00:00Z)")
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
			if err := o.consistent(cmd, a.json); err != nil {
				return err
			}
			budget, err := o.budget(cmd, time.Now())
			if err != nil {
				return err
			}
			if err := o.replaceable(budget); err != nil {
				return err
			}
			s, err := a.outline(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.noteKept(s, o.out != ""); err != nil {
				return err
			}
			inRounds, others := rounds.Split(o.replace, loops.Prefixes()...)
			o.replace = others
			p, err := makePlan(s.Graph, s.store, o)
			if err != nil {
				return err
			}
			if err := binds(budget, s.Graph); err != nil {
				return err
			}
			p.Budget = budget
			beside, err := s.loops(inRounds)
			if err != nil {
				return err
			}
			if why := o.withoutRounds(p.Budget); why != "" {
				a.noteRounds(beside, s.Rounds, why)
				beside = nil
			}
			p.Rounds = beside.counts()
			if err := a.writePlan(s, p, beside, o); err != nil {
				return err
			}
			if o.out != "" {
				whole, err := s.whole()
				if err != nil {
					return err
				}
				if err := a.savePlan(whole, p, o); err != nil {
					return err
				}
			}
			a.remember(s.ground)
			if o.detailed && p.Counts.Changes()+beside.changes() > 0 {
				return done(codeChanges)
			}
			return nil
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 2 when apply would run something")
	cmd.Flags().BoolVar(&refresh, "refresh", true, "read files, programs and GPUs again; false takes the facts of the last time")
	cmd.Flags().BoolVar(&o.all, "all", false, "list every node on a line of its own, cached ones too")
	cmd.Flags().StringVar(&o.out, "out", "", "save the plan to this `FILE`, which apply takes")
	cmd.Flags().StringVar(&o.format, "format", "", "markdown: a comment for a pull request, at most 65,536 characters")
	return cmd
}

// consistent refuses flags that are written and empty, such as those of an unset
// variable, and two forms at once.
func (o planOptions) consistent(cmd *cobra.Command, asJSON bool) error {
	for _, name := range []string{"out", "format", "trace"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return fail(codeUsage, fmt.Errorf("--%s is empty; write a value, or leave it out", name))
		}
	}
	if o.out != "" {
		if err := saved.Writable(o.out); err != nil {
			return fail(codeUsage, fmt.Errorf("--out %w", err))
		}
	}
	if o.format != "" && asJSON {
		return fail(codeUsage, fmt.Errorf("--format %s and --json are two forms; leave one of them out", o.format))
	}
	return nil
}

func makePlan(g *compile.Graph, store cache.Reader, o planOptions) (*plan.Plan, error) {
	p, problems := plan.Make(g, store, plan.Options{Targets: o.targets, Replace: o.replace, GivenUp: o.givenUp, Now: time.Now()})
	if len(problems) > 0 {
		return nil, fail(codeUsage, problemsError(problems), "`sotabuild plan --all` lists every node, `sotabuild graph` every block")
	}
	return p, nil
}

// order is the forecast of a plan that has a budget; nil of one that has none.
func order(g *compile.Graph, store cache.Reader, p *plan.Plan) []budget.Start {
	if p.Budget.Empty() {
		return nil
	}
	return budget.Forecast(g, p, store.Kind, time.Now())
}

const forecastTitle = "Within the budget, what tells most first:"

// forecastMarkdown is the forecast in a comment for a pull request, its first
// lines if it is long; "" of none.
func forecastMarkdown(order []budget.Start) string {
	const most = 50
	if len(order) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n" + forecastTitle + "\n\n```\n")
	for i, o := range order {
		if i == most {
			fmt.Fprintf(&b, "and %d more\n", len(order)-most)
			break
		}
		b.WriteString(forecast(i+1, o) + "\n")
	}
	return b.String() + "```\n"
}

// forecast is a line of it for people.
func forecast(n int, o budget.Start) string {
	line := fmt.Sprintf("%4d. %s", n, o.Nodes[0])
	if more := len(o.Nodes) - 1; more > 0 {
		line += fmt.Sprintf(" +%d in one task", more)
	}
	if o.Seconds > 0 {
		line += fmt.Sprintf("  about %s", time.Duration(o.Seconds*float64(time.Second)).Round(100*time.Millisecond))
		if o.GPUs > 0 {
			line += fmt.Sprintf(", %.3f GPU-hours", o.Seconds*float64(o.GPUs)/3600)
		}
	} else {
		line += "  never run"
	}
	switch o.Left {
	case 0:
	case len(o.Nodes):
		line += "  left: " + o.Why
	case 1:
		line += "  the last one left: " + o.Why
	default:
		line += fmt.Sprintf("  the last %d left: %s", o.Left, o.Why)
	}
	return line
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
func (a *app) writePlan(s *outline, p *plan.Plan, beside loopViews, o planOptions) error {
	switch o.format {
	case "":
		return a.showPlan(a.out, s.Outline, p, order(s.Graph, s.store, p), beside, o.all)
	case "markdown":
		// What comes after the nodes is short.
		more := forecastMarkdown(order(s.Graph, s.store, p)) + beside.markdown() + unaskedMarkdown(s.Outline, p)
		fmt.Fprint(a.out, markdown.Plan(s.Name, p, s.Graph, markdown.Limit-len(more))+more)
		return nil
	}
	return fail(codeUsage, fmt.Errorf("--format %q: write markdown, or --json without --format", o.format))
}

// showPlan prints a plan for people or as JSON.
func (a *app) showPlan(w io.Writer, s prepare.Outline, p *plan.Plan, order []budget.Start, beside loopViews, all bool) error {
	if a.json {
		b, err := json.MarshalIndent(struct {
			plan.Document
			Order   []budget.Start `json:"order,omitempty"`
			Repeats []loopDocument `json:"repeats,omitempty"`
			Rates   []loopDocument `json:"rate_search,omitempty"`
		}{p.Document(s.Graph), order, beside.documents("noise"), beside.documents("rate_search")}, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\n", b)
		return nil
	}
	lines := p.Lines(s.Graph)
	if all {
		lines = p.All(s.Graph)
	}
	a.writeLines(w, lines, p.Totals(), p.Estimate)
	if len(order) > 0 {
		fmt.Fprintln(w, forecastTitle)
	}
	for i, o := range order {
		fmt.Fprintln(w, forecast(i+1, o))
	}
	fmt.Fprint(w, beside.text())
	unasked(w, s, p)
	return nil
}

// writeLines prints a plan's lines, their sum and what it may take.
func (a *app) writeLines(w io.Writer, lines []plan.Line, sum string, e plan.Estimate) {
	st := a.style(w)
	for _, l := range lines {
		fmt.Fprintf(w, "%s %s  %s\n", st.mark(l.Mark), l.Addr, st.dim(l.Text))
	}
	fmt.Fprintln(w, st.bold(sum))
	if e := e.String(); e != "" {
		fmt.Fprintln(w, st.dim(e))
	}
}

// unaskedMarkdown is what unasked says, each a paragraph.
func unaskedMarkdown(s prepare.Outline, p *plan.Plan) string {
	var b strings.Builder
	unasked(&b, s, p)
	text := ""
	for line := range strings.Lines(b.String()) {
		text += "\n" + line
	}
	return text
}

// unasked says what apply asks before anything else, by the plan of it.
func unasked(w io.Writer, s prepare.Outline, p *plan.Plan) {
	never, again := 0, 0
	for _, addr := range s.Unasked {
		switch id, ok := s.Graph.Lookup(addr); {
		case addr == campaign.HostAddr || addr == campaign.ClientAddr:
		case ok && p.Nodes[id].Reason.Cause == plan.CauseRetry:
			again++
		default:
			never++
		}
	}
	if never > 0 {
		fmt.Fprintf(w, "The help of %s is not known yet: apply asks for it first and checks every flag before the first server starts.\n", result.Count(never, "program"))
	}
	if again > 0 {
		fmt.Fprintf(w, "%s gave no help when asked: apply asks again, and measures the others if that fails.\n", result.Count(again, "program"))
	}
	if slices.Contains(s.Unasked, campaign.ClientAddr) {
		fmt.Fprintln(w, "The client was not calibrated on this machine within a week: apply does so first, in some ten seconds of a quiet machine.")
	}
	if slices.Contains(s.Unasked, campaign.HostAddr) {
		fmt.Fprintln(w, "The GPUs were not looked at within a day: apply does so first, and stops where a field is out of range.")
	}
}
