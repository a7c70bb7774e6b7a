package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/plan/saved"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign/loops"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/rounds"
)

func applyCommand(a *app) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use: "apply [PLAN]", Short: "Run what is stale, and only that; or exactly what a saved plan says", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.consistent(cmd, a.json); err != nil {
				return err
			}
			if err := traceable(o.trace); err != nil {
				return err
			}
			var bound *saved.Plan
			if len(args) == 1 {
				p, err := a.readPlan(args[0], &o)
				if err != nil {
					return err
				}
				bound = &p
			}
			budget, err := o.budget(cmd, time.Now())
			if err != nil {
				return err
			}
			if err := o.replaceable(budget); err != nil {
				return err
			}
			c, err := a.load()
			if err != nil {
				return err
			}
			if err := prepare.Runnable(c); err != nil {
				return fail(codeUsage, err)
			}
			store, err := cache.OpenLocal(a.storeDir(), cache.Options{Command: "sotabuild apply"})
			if err != nil {
				return err
			}
			err = a.apply(cmd.Context(), store, c, o, bound, budget)
			if cerr := store.Close(); err == nil {
				err = cerr
			}
			return err
		},
	}
	o.register(cmd)
	cmd.Flags().StringVar(&o.trace, "trace", "", "write what ran when to this file, as a Chrome trace (ui.perfetto.dev opens it)")
	return cmd
}

// budget reads the bounds of a run. A bound that is written and empty, such as
// that of an unset variable, is refused: it must not read as none.
func (o planOptions) budget(cmd *cobra.Command, now time.Time) (plan.Budget, error) {
	var b plan.Budget
	if cmd.Flags().Changed("max-gpu-hours") {
		hours, err := strconv.ParseFloat(o.gpuHours, 64)
		if err != nil || !(hours > 0) || math.IsInf(hours, 0) {
			return b, fail(codeUsage, fmt.Errorf("--max-gpu-hours %q: write a positive number of hours; without the flag there is no bound", o.gpuHours))
		}
		b.GPUSeconds = hours * 3600
	}
	if !cmd.Flags().Changed("deadline") {
		return b, nil
	}
	if at, err := time.Parse(time.RFC3339, o.deadline); err == nil {
		b.Deadline = at
		return b, nil
	}
	d, err := lang.ParseDuration(o.deadline)
	if err != nil || d <= 0 {
		return b, fail(codeUsage, fmt.Errorf("--deadline %q: write a span such as 90m, or a time such as 2026-12-01T06:00:00Z", o.deadline))
	}
	b.Deadline = now.Add(d)
	return b, nil
}

// binds refuses a bound of GPU-hours where nothing holds a GPU: it would bound
// nothing, and read as if it did.
func binds(b plan.Budget, g *compile.Graph) error {
	if b.GPUSeconds == 0 || slices.ContainsFunc(g.Actions, func(a compile.Action) bool { return len(a.Resources.GPUs) > 0 }) {
		return nil
	}
	return fail(codeUsage, errors.New("--max-gpu-hours bounds nothing here: no node of this campaign holds a GPU"), "write --deadline to bound the time that it takes")
}

// readPlan reads a saved plan and takes over its options and variables.
func (a *app) readPlan(path string, o *planOptions) (saved.Plan, error) {
	if len(o.targets)+len(o.replace) > 0 {
		return saved.Plan{}, fail(codeUsage, errors.New("a saved plan has its own targets and replacements; leave --target and --replace out"))
	}
	p, err := saved.Read(path)
	if err != nil {
		return p, fail(codeUsage, err)
	}
	o.targets, o.replace = p.Options.Targets, p.Options.Replace
	return p, a.fixInputs(p)
}

// apply runs the campaign in two steps where help texts are missing: first the
// helps, then, with every flag checked, the rest (DESIGN 11.2). A saved plan
// that no longer holds is refused before anything starts.
func (a *app) apply(ctx context.Context, store *cache.Local, c *lang.Campaign, o planOptions, bound *saved.Plan, budget plan.Budget) error {
	interrupt, stop := interrupts()
	defer stop()
	var s *session
	err := preparing(ctx, interrupt, func(ctx context.Context) (err error) {
		if err = a.resume(ctx, c, store); err != nil {
			return err
		}
		if _, err = a.pull(ctx, c); err == nil {
			s, err = a.open(ctx, store, c)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := binds(budget, s.Graph); err != nil {
		return err
	}
	inRounds, others := rounds.Split(o.replace, loops.Prefixes()...)
	if len(inRounds) > 0 { // a wrong name is told before anything runs
		if _, err := s.loops(inRounds); err != nil {
			return err
		}
	}
	if bound != nil {
		if err := a.bind(s, store, *bound, o); err != nil {
			return err
		}
	}
	r := run{app: a, trace: o.trace, budget: budget, store: store, id: newRunID(), interrupt: interrupt, started: time.Now(), ends: map[string]event.Event{}}
	if len(s.Unasked) > 0 {
		sum, err := r.ask(ctx, s)
		if err != nil {
			return err
		}
		r.total = sum
		if sum.Interrupted {
			return r.finish(s)
		}
		// A program without a help fails for itself: the others are measured.
		if s, err = a.open(ctx, store, c); err != nil {
			return err
		}
		if bound != nil {
			if err := a.follows(s, *bound, o); err != nil {
				return err
			}
		}
	}
	o.givenUp, r.replaces = r.total.FailedNodes, len(o.replace) > 0
	o.replace = others
	r.alone = bound != nil || len(o.targets) > 0
	return reread(store, a.defects, func() error {
		err := r.measure(ctx, s, &o, inRounds)
		if err == nil {
			inRounds = nil // they are replaced
			err = r.finish(s)
		}
		if errors.Is(err, cache.ErrMissing) {
			// An output turned out broken and is a miss like any other: what made it
			// runs again.
			r.distrust()
			r.unfound, r.unstarted = nil, nil
		}
		return err
	})
}

// measure runs what is stale, the rounds too. After an interrupt it runs nothing.
// What was to be replaced is taken out of the options when it has run.
func (r *run) measure(ctx context.Context, s *session, o *planOptions, inRounds []string) error {
	if !r.total.Interrupted {
		sum, err := r.once(ctx, s, *o)
		if err != nil {
			return err
		}
		r.total, o.replace = r.add(sum), nil
	}
	switch blocks := s.Rounds; {
	case blocks == nil && inRounds == nil || r.total.Interrupted:
	case r.alone:
		left, err := s.loops(nil)
		if err != nil {
			return err
		}
		r.app.noteRounds(left, blocks, ofGraph)
	default:
		if err := r.runLoops(ctx, s, inRounds); err != nil {
			return err
		}
	}
	r.app.remember(s.ground)
	return nil
}

// distrust reads what the plan takes from the store, so that all that is broken
// is known at once.
func (r *run) distrust() {
	for _, n := range r.plan.Nodes {
		if n.Record == nil {
			continue
		}
		for _, o := range n.Record.Outputs {
			_, _ = r.store.Path(o.Digest) // what is wrong is a defect of the store
		}
	}
}

func newRunID() string {
	b := make([]byte, 4)
	rand.Read(b) // never fails (crypto/rand)
	return time.Now().UTC().Format("20060102t150405") + "-" + hex.EncodeToString(b)
}

// hostname labels records; an unknown one is said so.
func hostname() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "unknown"
}

// relative is a path as short as it can be from here.
func relative(p string) string {
	wd, err := os.Getwd()
	if err != nil {
		return p
	}
	if r, err := filepath.Rel(wd, p); err == nil && !strings.HasPrefix(r, "../../..") {
		return r
	}
	return p
}
