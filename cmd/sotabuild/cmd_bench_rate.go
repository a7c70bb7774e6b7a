package main

import (
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/rate"
	"github.com/sotabuild/sotabuild/stdlib/bench/solo"
)

// roundText says what came of a round.
func roundText(p rate.Point) string {
	if p.Kept {
		return "kept"
	}
	return "broken: " + p.Why
}

// benchRateCommand searches the highest rate that keeps an SLA.
func benchRateCommand(a *app) *cobra.Command {
	var b benchFlags
	var limits []string
	rule := rate.Rule{}
	cmd := &cobra.Command{
		Use: "rate URL", Short: "Find the highest request rate that keeps an SLA", Args: oneURL,
		Long: "Doubles the rate until a limit breaks, then bisects, at most --rounds times. Begin with --request-rate.\n" +
			"A percentile with too few samples decides nothing: p99 needs 100 prompts. Exit code 6 when no rate keeps the SLA.",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := b.options(args[0])
			if err == nil && o.Load.Rate == nil {
				err = errors.New("--request-rate: write the rate of the first round")
			}
			if err == nil && (len(limits) == 0 || rule.Rounds < 1) {
				err = errors.New("write at least one --limit, such as --limit ttft/send:p99=0.2, and --rounds of at least 1")
			}
			if err != nil {
				return fail(codeUsage, err)
			}
			for _, l := range limits {
				id, value, _ := strings.Cut(l, "=")
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return fail(codeUsage, fmt.Errorf("--limit %q: write ID=SECONDS, such as ttft/send:p99=0.2", l))
				}
				if err := knownMetric("--limit", id); err != nil {
					return fail(codeUsage, err)
				}
				rule.Limits = append(rule.Limits, rate.Limit{ID: id, Max: v})
			}
			rule.Start = *o.Load.Rate
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var s rate.State
			step := rule.Next(s)
			for step.Rate > 0 {
				at := step.Rate
				o.Load.Rate = &at
				out, err := solo.Run(ctx, bench.ThisHost(), o)
				if err != nil {
					return unlessInterrupted(ctx, codeError, err)
				}
				p, err := rule.Outcome(at, out.Row)
				if err != nil {
					return unlessInterrupted(ctx, codeNodeFailed, err)
				}
				s.Points = append(s.Points, p)
				fmt.Fprintf(a.err, "%.4g requests/s: %s\n", p.Rate, roundText(p))
				step = rule.Next(s)
			}
			if a.json {
				err = a.printJSON(map[string]any{"points": s.Points, "best": step.Best, "why": step.Why})
			} else {
				_, err = fmt.Fprintf(a.out, "%.4g requests/s keeps the SLA: %s\n", step.Best, step.Why)
			}
			if err == nil && step.Best == 0 {
				return done(codeGate)
			}
			return err
		},
	}
	b.add(cmd)
	cmd.Flags().StringSliceVar(&limits, "limit", nil, "`ID=SECONDS`, such as ttft/send:p99=0.2; may be repeated")
	cmd.Flags().IntVar(&rule.Rounds, "rounds", 5, "at most")
	cmd.Flags().Float64Var(&rule.Within, "within", 0.05, "stop when the bracket is narrower than this share")
	return cmd
}
