package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/stdlib/reference"
	"github.com/sotabuild/sotabuild/stdlib/stops"
)

func schemaCommand(a *app) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "schema [campaign|definition]",
		Short: "Print the language: JSON Schema, or its reference pages",
		Long: "schema prints JSON Schema of campaign files (or of framework definitions) in the JSON\n" +
			"syntax, for editors and generators; with --format=markdown the reference of both.",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"campaign", "definition"},
		RunE: func(_ *cobra.Command, args []string) error {
			kind := reference.Campaign
			if len(args) == 1 && args[0] == "definition" {
				kind = reference.Definition
			}
			switch format {
			case "json":
				b, err := reference.JSONSchema(kind)
				if err != nil {
					return err
				}
				_, err = a.out.Write(b)
				return err
			case "markdown":
				_, err := io.WriteString(a.out, reference.Markdown(string(stops.HCL)))
				return err
			}
			return fail(codeUsage, fmt.Errorf("--format %q: write json or markdown", format))
		},
	}
	cmd.Flags().StringVar(&format, "format", "json", "json or markdown")
	return cmd
}
