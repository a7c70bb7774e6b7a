package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/stdlib/ncu"
)

func ncuCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "ncu", Short: "Digests of Nsight Compute reports"}
	cmd.AddCommand(ncuRunCommand(a), harnessCommand(a), digestCommand(a))
	return cmd
}

func digestCommand(a *app) *cobra.Command {
	var o ncu.Options
	var out string
	cmd := &cobra.Command{
		Use:   "digest --baseline FILE --candidate FILE",
		Short: "Compare two versions of a kernel: what bounds it now, and one next edit",
		Long: "Files are .ncu-rep reports, or the CSV of `ncu --csv` (details and raw pages of one\n" +
			"report may be given together by repeating the flag).",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := ncu.Make(cmd.Context(), o)
			if err != nil {
				return fail(codeUsage, err)
			}
			if out != "" {
				version, err := ncu.Next(out)
				if err != nil {
					return err
				}
				dir, err := ncu.Write(out, version, d)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, relative(dir))
				return nil
			}
			if a.json {
				b, err := json.MarshalIndent(d, "", "  ")
				if err != nil {
					return err
				}
				fmt.Fprintf(a.out, "%s\n", b)
				return nil
			}
			fmt.Fprint(a.out, string(d.Markdown()))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Baseline.Pages, "baseline", nil, "report or CSV page of the baseline, a `FILE`")
	f.StringArrayVar(&o.Candidate.Pages, "candidate", nil, "report or CSV page of the candidate, a `FILE`")
	f.StringVar(&o.Kernel, "kernel", "", "regular expression on the kernel's name")
	f.StringVar(&o.Baseline.Kernel, "baseline-kernel", "", "the same for the baseline alone")
	f.StringVar(&o.Candidate.Kernel, "candidate-kernel", "", "the same for the candidate alone")
	f.StringVar(&out, "out", "", "folder of digests; a new version is made in it")
	return cmd
}
