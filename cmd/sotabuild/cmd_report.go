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
			if a.json {
				format = "json"
			}
			var b []byte
			err = reread(s.store, a.defects, func() (err error) {
				b, err = a.report(s, format)
				return err
			})
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

// report is what the command prints: the run directory that it has written, or a
// form of the report.
func (a *app) report(s *session, format string) ([]byte, error) {
	now := time.Now()
	v, err := show.View(s.Prepared, s.store, version(), now, now)
	if err != nil {
		return nil, err
	}
	switch format {
	case "":
		if dir, err := a.kept(s.Run, s.store); err != nil {
			return nil, err
		} else if dir != "" {
			return nil, fail(codeUsage, fmt.Errorf("the store has no record, and %s keeps some: it would be written over", relative(dir)), "take them over first: `sotabuild cache import "+relative(dir)+"`")
		}
		dir, err := show.WriteRun(v, s.Prepared, s.store, s.tasks(), now)
		if err != nil {
			return nil, err
		}
		a.remember(s.ground)
		return []byte(relative(dir) + "\n"), nil
	case "md":
		return v.Markdown(), nil
	case "json":
		return export.JSON(v)
	case "csv":
		return export.CSV(v)
	case "html":
		return show.Page(v, s.Prepared, s.store, now)
	}
	return nil, fail(codeUsage, fmt.Errorf("--format %q: write md, json, csv or html", format))
}
