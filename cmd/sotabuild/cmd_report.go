package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/stdlib/campaign/show"
	"github.com/sotabuild/sotabuild/stdlib/report/export"
)

func reportCommand(a *app) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write the run directory again from what is recorded, or print one form of the report",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.named(); err != nil {
				return err
			}
			s, err := a.view(cmd.Context())
			if err != nil {
				return err
			}
			now := time.Now()
			v, err := show.View(s.Prepared, s.store, version(), now, now)
			if err != nil {
				return err
			}
			if a.json {
				format = "json"
			}
			var b []byte
			switch format {
			case "":
				dir, err := show.WriteRun(v, s.Prepared, s.store, s.tasks(), time.Now())
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, relative(dir))
				a.remember(s.ground)
				return nil
			case "md":
				b = v.Markdown()
			case "json":
				b, err = export.JSON(v)
			case "csv":
				b, err = export.CSV(v)
			case "html":
				b, err = show.Page(v, s.Prepared, s.store, time.Now())
			default:
				return fail(codeUsage, fmt.Errorf("--format %q: write md, json, csv or html", format))
			}
			if err != nil {
				return err
			}
			_, err = a.out.Write(b)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "md, json, csv or html to standard output")
	return cmd
}
