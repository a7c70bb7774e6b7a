package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/gc"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func cacheCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cache", Short: "List, verify, repair, thin out or fill the store",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fail(codeUsage, fmt.Errorf("cache needs a command: ls, verify, repair, gc or import"))
		},
	}
	cmd.AddCommand(cacheLsCommand(a), cacheVerifyCommand(a), cacheRepairCommand(a), cacheGCCommand(a), cacheImportCommand(a))
	return cmd
}

// listed is a record as `cache ls --json` writes it, one line each.
type listed struct {
	Serial  uint64      `json:"serial"`
	Node    string      `json:"node"`
	Kind    string      `json:"kind"`
	Key     key.Key     `json:"key"`
	State   cache.State `json:"state"`
	Class   string      `json:"class,omitempty"`
	Started time.Time   `json:"started"`
	Seconds float64     `json:"seconds"`
	Bytes   int64       `json:"bytes"`
	Task    string      `json:"task,omitempty"`
}

func cacheLsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List every record; needs no lock", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.existing()
			if err != nil {
				return err
			}
			s, err := cache.OpenReader(dir)
			if err != nil {
				return err
			}
			defer s.Close() // only read
			now := time.Now()
			for _, r := range s.Records() {
				row := listed{r.Serial, r.Node, r.Kind, r.Key, r.Outcome.State, r.Outcome.Class, r.Time.Started, r.Time.Seconds, 0, r.Origin.Task}
				for _, o := range r.Outputs {
					row.Bytes += o.Size
				}
				if a.json {
					if err := a.printLine(row); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(a.out, "%6d  %s  %-8s  %6s  %8s  %s\n", row.Serial, row.Key.Short(), row.State, gc.Age(max(0, now.Sub(row.Started))), size(row.Bytes), row.Node)
			}
			a.defects(s.Defects())
			return nil
		},
	}
}

func cacheVerifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Read everything again and say what is broken; changes nothing, needs no lock", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.existing()
			if err != nil {
				return err
			}
			rep, err := cache.Verify(dir)
			if err != nil {
				return err
			}
			if err := a.printReport(rep); err != nil {
				return err
			}
			if len(rep.Defects) > 0 {
				return fail(codeError, fmt.Errorf("the store has %s; what is broken is never used as a result", result.Count(len(rep.Defects), "defect")), "`sotabuild cache repair` takes them out")
			}
			return nil
		},
	}
}

func cacheRepairCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "repair", Short: "Take damaged entries out; what they held runs again", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.existing()
			if err != nil {
				return err
			}
			rep, err := cache.Repair(dir, cache.Options{Command: "sotabuild cache repair"})
			if err != nil {
				return err
			}
			return a.printReport(rep)
		},
	}
}

func cacheImportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "import RUN_DIR", Short: "Take the results of a run directory into the store", Args: cobra.ExactArgs(1),
		Long: "import reads the records that apply and report keep in a run directory, with every\n" +
			"output, and puts those that the store does not have into it: on another machine, or\n" +
			"after the store was deleted, plan then finds them by key. A file whose bytes are not\n" +
			"those that were recorded is refused by its name, and what needs it is left out.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.importRun(cmd.Context(), args[0]) },
	}
}

// importRun takes over what is whole and ends with an error if anything is not.
func (a *app) importRun(ctx context.Context, dir string) error {
	in, root, err := openArchive(dir)
	if err != nil {
		return fail(codeUsage, err)
	}
	defer root.Close() // only read
	l, err := cache.OpenLocal(a.storeDir(), cache.Options{Command: "sotabuild cache import"})
	if err != nil {
		return err
	}
	n, err := in.Import(ctx, l)
	a.defects(l.Defects())
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(map[string]any{"campaign": in.Name, "imported": n, "refused": append([]string{}, in.Refused...)})
	} else {
		for _, r := range in.Refused {
			fmt.Fprintln(a.out, "refused: "+r)
		}
		_, err = fmt.Fprintf(a.out, "%s of campaign %q imported.\n", result.Count(n, "record"), in.Name)
	}
	if err == nil && len(in.Refused) > 0 {
		err = fail(codeError, fmt.Errorf("%s in %s, of which nothing was taken", result.Count(len(in.Refused), "damaged or foreign item"), dir))
	}
	return err
}

func (a *app) printReport(rep cache.Report) error {
	if a.json {
		return a.printJSON(rep)
	}
	for _, d := range rep.Defects {
		fmt.Fprintln(a.out, d)
	}
	fmt.Fprintf(a.out, "%s, %s of %s, %s.\n", result.Count(rep.Records, "record"), result.Count(rep.Objects, "object"), size(rep.Bytes), result.Count(len(rep.Defects), "defect"))
	if rep.Lost > 0 {
		fmt.Fprintf(a.out, "%s lost an output before: history, and never a result.\n", result.Count(rep.Lost, "record"))
	}
	return nil
}

type gcOptions struct {
	maxAge, maxSize string
	dryRun, foreign bool
}

func cacheGCCommand(a *app) *cobra.Command {
	var o gcOptions
	cmd := &cobra.Command{
		Use: "gc", Short: "Take out what is old or too much", Args: cobra.NoArgs,
		Long: "gc takes out records with their objects, objects that no record names, old task\n" +
			"folders and logs. What this campaign's plan uses stays, and so does everything of\n" +
			"tasks that an apply left running. Without limits only what no record names goes.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := o.policy()
			if err != nil {
				return fail(codeUsage, err)
			}
			return a.gc(cmd.Context(), p, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.maxAge, "max-age", "", "take out what is older, such as 30d")
	f.StringVar(&o.maxSize, "max-size", "", "take out the oldest until the objects fit, such as 10g")
	f.BoolVar(&o.dryRun, "dry-run", false, "only list what would go; needs no lock")
	f.BoolVar(&o.foreign, "without-campaign", false, "hold nothing for the campaign of this folder")
	return cmd
}

func (o gcOptions) policy() (gc.Policy, error) {
	var p gc.Policy
	var err error
	if o.maxAge != "" {
		if p.MaxAge, err = lang.ParseDuration(o.maxAge); err != nil || p.MaxAge <= 0 {
			return p, fmt.Errorf("--max-age %q: write a span such as 30d or 12h", o.maxAge)
		}
	}
	if o.maxSize != "" {
		n, err := lang.ParseBytes(o.maxSize)
		if err != nil || n <= 0 {
			return p, fmt.Errorf("--max-size %q: write a size such as 10g", o.maxSize)
		}
		p.MaxBytes = n
	}
	return p, nil
}

// gc decides and, unless it is a dry run, takes out.
func (a *app) gc(ctx context.Context, p gc.Policy, o gcOptions) error {
	dir, err := a.existing()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if o.dryRun {
		s, err := cache.OpenReader(dir)
		if err != nil {
			return err
		}
		defer s.Close() // only read
		items, err := a.garbage(ctx, s, dir, p, o)
		if err != nil {
			return err
		}
		_, more, err := a.leftovers(ctx, s, dir, o)
		if err != nil {
			return err
		}
		return a.printGarbage(append(items, more...), "would go")
	}
	l, err := cache.OpenLocal(dir, cache.Options{Command: "sotabuild cache gc"})
	if err != nil {
		return err
	}
	items, err := a.garbage(ctx, l.Snapshot, dir, p, o)
	if err == nil {
		err = gc.Run(l, dir, items)
	}
	if err == nil {
		var more []gc.Item
		more, err = a.clear(ctx, l.Snapshot, dir, o)
		items = append(items, more...)
	}
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return a.printGarbage(items, "gone")
}

func (a *app) garbage(ctx context.Context, s *cache.Snapshot, dir string, p gc.Policy, o gcOptions) ([]gc.Item, error) {
	var h gc.Hold
	h.Objects, h.Tasks = sched.Leases(filepath.Join(dir, "tasks"), s.Intents())
	if !o.foreign {
		used, err := a.used(ctx, s)
		if err != nil {
			return nil, err
		}
		h.Record = func(r *cache.Record) bool { return used[r.Serial] }
	}
	return gc.Plan(s, dir, p, h, time.Now())
}

// used are the records that the campaign's plan would use, and those of the
// rounds beside it.
func (a *app) used(ctx context.Context, s *cache.Snapshot) (map[uint64]bool, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	open, err := a.open(ctx, s, c)
	if err != nil {
		return nil, err
	}
	pl, err := makePlan(open.Graph, open.store, planOptions{})
	if err != nil {
		return nil, err
	}
	used := map[uint64]bool{}
	for _, n := range pl.Nodes {
		if n.Verdict == plan.Cached {
			used[n.Record.Serial] = true
		}
	}
	beside, err := open.loops(nil)
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Concat(beside...) {
		for _, r := range l.view.Rounds {
			for _, n := range r.Plan.Nodes {
				if n.Verdict == plan.Cached {
					used[n.Record.Serial] = true
				}
			}
		}
	}
	a.remember(open.ground)
	return used, nil
}

func (a *app) printGarbage(items []gc.Item, end string) error {
	var bytes int64
	records := 0
	for _, it := range items {
		bytes += it.Bytes
		if it.Kind == gc.Record {
			records++
		}
		if a.json {
			if err := a.printLine(it); err != nil {
				return err
			}
			continue
		}
		if it.Kind == gc.Object && it.Bytes == 0 {
			continue // its record's line counts it
		}
		fmt.Fprintf(a.out, "%-6s  %6s  %8s  %s  %s\n", it.Kind, gc.Age(it.Age), size(it.Bytes), it.Name, it.Reason)
	}
	if !a.json {
		fmt.Fprintf(a.out, "%s, %s in all, %s %s.\n", result.Count(records, "record"), result.Count(len(items), "item"), size(bytes), end)
	}
	return nil
}

func (a *app) defects(list []string) {
	for _, d := range list {
		fmt.Fprintf(a.err, "warning: store: %s\n", d)
	}
}

// size is bytes for people, in powers of 1024.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
