package main

import (
	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/stdlib/trace"
)

func traceCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "trace", Short: "Read torch-profiler traces: where GPU time goes"}
	cmd.AddCommand(triageCommand(a), layersCommand(a), traceDiffCommand(a))
	return cmd
}

// traceFormat reads --format; --json is another word for it.
func (a *app) traceFormat(s string) (trace.Format, error) {
	if a.json {
		s = string(trace.JSON)
	}
	f, err := trace.ParseFormat(s)
	if err != nil {
		return "", fail(codeUsage, err)
	}
	return f, nil
}

func triageCommand(a *app) *cobra.Command {
	var o trace.TriageOptions
	var format string
	cmd := &cobra.Command{
		Use:   "triage PATH…",
		Short: "Kernels, overlap opportunities and fuse patterns of each stage",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Format, err = a.traceFormat(format); err != nil {
				return err
			}
			o.Paths, o.Log = args, a.err
			return trace.Triage(cmd.Context(), o, a.out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Mapping, "mapping", "", "trace of the same work without graphs, whose sources replays get")
	f.StringVar(&o.Framework, "framework", "", "what was traced, such as vllm or sglang; without it the trace tells")
	f.BoolVar(&o.Host, "host-operators", false, "take the host's operators for the work: for a server without a GPU")
	f.StringVar(&o.Baseline, "baseline", "", "earlier trace, to tell regressed fusions")
	f.StringVar(&o.Config, "config", "", "the served model's config.json")
	f.StringVar(&o.Tree, "tree", "", "checkout of the framework, to check candidate paths")
	f.Float64Var(&o.Cutoff, "cutoff", trace.DefaultCutoff, "least share of a stage's GPU time that is shown")
	f.StringVar(&format, "format", "md", "md, json or csv")
	return cmd
}

func layersCommand(a *app) *cobra.Command {
	var o trace.LayersOptions
	var format string
	cmd := &cobra.Command{
		Use:   "layers PATH",
		Short: "The layers of a forward pass: types, times, hot kernels",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Format, err = a.traceFormat(format); err != nil {
				return err
			}
			o.Path, o.Log = args[0], a.err
			return trace.Layers(cmd.Context(), o, a.out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Config, "config", "", "the served model's config.json")
	f.IntVar(&o.Pass, "pass", -1, "the pass to show, from 0; -1 chooses")
	f.StringVar(&format, "format", "md", "md, json or csv")
	return cmd
}

func traceDiffCommand(a *app) *cobra.Command {
	var o trace.DiffOptions
	var format string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "What B spends more or less than A, stage by stage; the rows sum to the gap",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Format, err = a.traceFormat(format); err != nil {
				return err
			}
			o.A, o.B, o.Log = args[0], args[1], a.err
			return trace.Diff(cmd.Context(), o, a.out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Config, "config", "", "the served model's config.json")
	f.Float64Var(&o.Cutoff, "cutoff", trace.DefaultCutoff, "rows that explain less of the gap are summed into one")
	f.StringVar(&format, "format", "md", "md, json or csv")
	return cmd
}
