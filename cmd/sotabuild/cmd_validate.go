package main

import (
	"fmt"

	"github.com/spf13/cobra"
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
				fmt.Fprintf(a.out, "%s is valid: target %s against %d, %d scenarios.\n", c.Name, c.Sides.Target, len(c.Sides.Compare), len(c.Load.Scenarios))
			}
			return nil
		},
	}
}
