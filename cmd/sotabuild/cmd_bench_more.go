package main

import (
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/executors/creation"
	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/answers"
	"github.com/sotabuild/sotabuild/stdlib/bench/calibrate"
	"github.com/sotabuild/sotabuild/stdlib/bench/page"
	"github.com/sotabuild/sotabuild/stdlib/bench/solo"
	"github.com/sotabuild/sotabuild/stdlib/imports"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/stats"
)

func benchCompareCommand(a *app) *cobra.Command {
	var b benchFlags
	var metric string
	var repeats int
	var rowsA, rowsB []string
	cmd := &cobra.Command{
		Use:   "compare URL_A URL_B",
		Short: "Decide which of two servers is ahead, by runs in turns",
		Long: "Runs A and B in turns (ABBA), looks after 3, 5, 10 and 20 repeats, and says ahead, behind,\n" +
			"tied (within 1 %) or unresolved. With --a and --b it judges runs that were made before.",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if repeats < 2 {
				return fail(codeUsage, fmt.Errorf("--max-repeats %d: write at least 2", repeats))
			}
			if err := knownMetric("--metric", metric); err != nil {
				return fail(codeUsage, err)
			}
			rule := stats.Standard(repeats)
			var d solo.Duel
			switch {
			case len(args) == 0 && len(rowsA) > 0 && len(rowsB) > 0:
				one, err := readRows(rowsA)
				two, err2 := readRows(rowsB)
				if err := errors.Join(err, err2); err != nil {
					return fail(codeUsage, err)
				}
				if d, err = solo.CompareRows(one, two, metric, rule); err != nil {
					return fail(codeUsage, err)
				}
			case len(args) == 2 && len(rowsA)+len(rowsB) == 0:
				x, err := b.options(args[0])
				y, err2 := b.options(args[1])
				if err := errors.Join(err, err2); err != nil {
					return fail(codeUsage, err)
				}
				ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
				defer stop()
				d, err = solo.Compare(ctx, bench.ThisHost(), x, y, metric, rule, func(who int, r result.Row) {
					v, _ := r.Metric(metric)
					fmt.Fprintf(a.err, "%c %s %.6g\n", 'A'+rune(who), metric, v)
				})
				if err != nil {
					return unlessInterrupted(ctx, codeNodeFailed, err)
				}
			default:
				return fail(codeUsage, errors.New("give two URLs, or row files with --a and --b"))
			}
			if a.json {
				return a.printJSON(d)
			}
			fmt.Fprintf(a.out, "A is %s\n", d.Result)
			return nil
		},
	}
	b.add(cmd)
	cmd.Flags().StringVar(&metric, "metric", "output_throughput", "id of the metric")
	cmd.Flags().IntVar(&repeats, "max-repeats", 20, "runs of each at most")
	cmd.Flags().StringSliceVar(&rowsA, "a", nil, "row `FILES` (or result folders) of A with commas between, in the order they were made")
	cmd.Flags().StringSliceVar(&rowsB, "b", nil, "the same `FILES` of B")
	return cmd
}

func readRows(paths []string) (out []result.Row, err error) {
	for _, p := range paths {
		if filepath.Ext(p) != ".json" {
			p = filepath.Join(p, bench.RowFile)
		}
		r, err := bench.ReadRow(p)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func benchCalibrateCommand(a *app) *cobra.Command {
	var step time.Duration
	var out string
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure what this client can measure on this machine",
		Long: "Starts a server with an exact schedule as a process of its own, loads it step by step, and\n" +
			"compares what the client read with what the server wrote.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			temp, err := creation.SystemTemp()
			if err != nil {
				return err
			}
			r, err := calibrate.Run(ctx, step, temp)
			if err != nil {
				return unlessInterrupted(ctx, codeError, err)
			}
			if out != "" {
				if err := r.Write(out); err != nil {
					return fail(codeError, err)
				}
			}
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprint(a.out, r.Table())
			return nil
		},
	}
	cmd.Flags().DurationVar(&step, "step", 2*time.Second, "time of each load")
	cmd.Flags().StringVar(&out, "out", "", "file for the result, as JSON")
	return cmd
}

func benchImportCommand(a *app) *cobra.Command {
	var by, export string
	var limits []string
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Read result files of other tools and rank what may be ranked",
		Long: "Reads files of vLLM, SGLang, TensorRT-LLM, TokenSpeed, aiperf, guidellm and inference-perf. Each\n" +
			"number gets the id of what the tool computes; numbers of unlike ids are not compared.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var runs []imports.Run
			var names []string
			for _, path := range args {
				b, err := a.readAll(path)
				if err != nil {
					return fail(codeUsage, err)
				}
				read, err := imports.Read(b)
				if err != nil {
					return fail(codeUsage, fmt.Errorf("%s: %w", path, err))
				}
				for i := range read {
					name := filepath.Base(path)
					if len(read) > 1 {
						name = fmt.Sprintf("%s[%d]", name, i)
					}
					runs, names = append(runs, read[i]), append(names, name)
				}
			}
			var max []imports.Limit
			for _, l := range limits {
				var v float64
				id, value, ok := strings.Cut(l, "=")
				if _, err := fmt.Sscanf(value, "%g", &v); !ok || err != nil {
					return fail(codeUsage, fmt.Errorf("--limit %q: write ID=SECONDS, such as tpot/excl-first:p50=0.012", l))
				}
				max = append(max, imports.Limit{ID: id, Max: v})
			}
			places, err := imports.Rank(runs, by, max)
			if err != nil {
				return fail(codeUsage, err)
			}
			if a.json {
				return a.printJSON(map[string]any{"runs": runs, "names": names, "places": places})
			}
			a.printPlaces(runs, names, places, by)
			for _, r := range runs {
				if r.Class != "" {
					return done(codeNodeFailed)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&by, "by", "output_throughput", "definition id to rank by")
	cmd.Flags().StringSliceVar(&limits, "limit", nil, "`ID=SECONDS`, a limit that a ranked run keeps")
	cmd.AddCommand(benchExportCommand(a, &export))
	return cmd
}

func (a *app) printPlaces(runs []imports.Run, names []string, places []imports.Place, by string) {
	for _, p := range places {
		r, n := runs[p.Run], "   -"
		if p.Rank > 0 {
			n = fmt.Sprintf("%4d", p.Rank)
		}
		value := ""
		if v, ok := r.Number(by); ok {
			value = fmt.Sprintf("%.6g %s", v.Value, v.Unit)
		}
		fmt.Fprintf(a.out, "%s  %-40s %-14s %s\n", n, names[p.Run], r.Tool, value)
		for _, why := range p.Reasons {
			fmt.Fprintf(a.out, "        %s\n", why)
		}
		if r.Basis == imports.Documented {
			fmt.Fprintf(a.out, "        read %s\n", r.Basis)
		}
	}
}

// benchExportCommand writes a row in another tool's form.
func benchExportCommand(a *app, form *string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "export ROW", Short: "Write a row in vLLM's or the seeds' form", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			rows, err := readRows(args)
			if err != nil {
				return fail(codeUsage, err)
			}
			var b []byte
			switch *form {
			case "vllm":
				b, err = imports.VLLM(rows[0])
			case "seed":
				b, err = imports.Seed("", "", rows[0])
			default:
				return fail(codeUsage, fmt.Errorf("--form %q: write vllm or seed", *form))
			}
			if err != nil {
				return err
			}
			_, err = a.out.Write(b)
			return err
		},
	}
	cmd.Flags().StringVar(form, "form", "vllm", "vllm or seed")
	return cmd
}

// benchAnswersCommand is the accuracy gate's measurement.
func benchAnswersCommand(a *app) *cobra.Command {
	var b benchFlags
	var out, baseline string
	var least, score float64
	cmd := &cobra.Command{
		Use: "answers URL", Short: "Collect greedy answers to fixed prompts and compare them with a baseline's", Args: oneURL,
		Long: "Asks for the answer to each prompt at temperature 0, one after the other. --out keeps the answers;\n" +
			"with --baseline it says how many of their tokens agree with answers that were kept before.\n" +
			"Exit code 6 when less than --min-agreement agree, or less than --min-score of graded answers is right.",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := b.options(args[0])
			if err != nil {
				return fail(codeUsage, err)
			}
			var want answers.Set
			if baseline != "" {
				if want, err = answers.Read(baseline); err != nil {
					return fail(codeUsage, err)
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			got, err := solo.Ask(ctx, bench.ThisHost(), o)
			if err != nil {
				return unlessInterrupted(ctx, codeError, err)
			}
			if out != "" {
				if err := got.Save(out); err != nil {
					return fail(codeError, err)
				}
			}
			if baseline == "" {
				fmt.Fprintf(a.out, "%s of %s to %s, by %s\n", result.Count(len(got.Answers), "answer"), got.Model, got.Dataset, got.Unit)
				return a.grade(got, score)
			}
			s, err := got.Agree(want)
			if err != nil {
				return fail(codeUsage, err)
			}
			if a.json {
				if err := a.printJSON(s); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(a.out, "%d of %d answers are equal (95 %% interval of the share %.3f to %.3f), %.1f %% of them (%s) before the first difference\n",
					s.Equal, s.Prompts, s.Low, s.High, s.Tokens*100, got.Unit)
			}
			if s.Tokens < least {
				return done(codeGate)
			}
			return a.grade(got, score)
		},
	}
	b.add(cmd)
	cmd.Flags().StringVar(&out, "out", "", "file for the answers")
	cmd.Flags().StringVar(&baseline, "baseline", "", "file of a baseline's answers to the same prompts")
	cmd.Flags().Float64Var(&least, "min-agreement", 0, "exit 6 when less than this share of the tokens agrees")
	cmd.Flags().Float64Var(&score, "min-score", 0, "exit 6 when less than this share of graded answers is right")
	return cmd
}

// grade says how many graded answers are right; not a word where none is.
func (a *app) grade(s answers.Set, least float64) error {
	right, all, low, high := s.Grade()
	switch {
	case all == 0 && least > 0:
		return fail(codeUsage, errors.New("--min-score: no prompt has an answer to be graded by; lines of the dataset hold one as \"answer\""))
	case all > 0 && !a.json:
		fmt.Fprintf(a.out, "%d of %d graded answers are right (95 %% interval of the share %.3f to %.3f)\n", right, all, low, high)
	}
	if all > 0 && float64(right) < least*float64(all) {
		return done(codeGate)
	}
	return nil
}

// benchFrontierCommand makes one page of many runs.
func benchFrontierCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "frontier ROW...", Short: "One HTML page of many runs: tokens/s a GPU against tokens/s a user", Args: cobra.MinimumNArgs(1),
		Long: "Prints one HTML page that loads nothing: tokens/s a GPU against tokens/s a user. A run is\n" +
			"a row file of bench, or its result folder:\n\n    sotabuild bench frontier out1 out2 > frontier.html",
		RunE: func(_ *cobra.Command, args []string) error {
			rows, err := readRows(args)
			if err != nil {
				return fail(codeUsage, err)
			}
			_, err = a.out.Write(page.Overview(args, rows))
			return err
		},
	}
}
