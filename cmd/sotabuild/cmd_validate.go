package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

func validateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate",
		Short: "Check the campaign's files; start nothing",
		Long: "Checks everything that the files say, and starts nothing. Whether a program knows its flags is\n" +
			"checked by plan and apply, against its own help. With --json each problem is a line.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.checking = true
			c, err := a.load()
			if err != nil {
				return err
			}
			if !a.json {
				fmt.Fprintf(a.out, "%s is valid: target %s against %s, %s.\n", c.Name, c.Sides.Target, result.Count(len(c.Sides.Compare), "competitor"), result.Count(len(c.Load.Scenarios), "scenario"))
			}
			return nil
		},
	}
}
