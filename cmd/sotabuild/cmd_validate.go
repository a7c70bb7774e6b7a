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
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.checking = true
			c, err := a.load()
			if err != nil {
				return err
			}
			if !a.json {
				fmt.Fprintf(a.out, "%s is valid: target %s against %d, %s.\n", c.Name, c.Sides.Target, len(c.Sides.Compare), result.Count(len(c.Load.Scenarios), "scenario"))
			}
			return nil
		},
	}
}
