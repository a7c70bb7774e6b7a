package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/plan"
)

func explainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "explain NODE", Short: "Say what a node is, what is recorded of it, and why it would or would not run",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.view(cmd.Context())
			if err != nil {
				return err
			}
			id, err := s.node(args[0])
			if err != nil {
				return err
			}
			p, err := makePlan(s, planOptions{})
			if err != nil {
				return err
			}
			e := plan.Explain(s.Graph, p, s.store, id)
			if a.json {
				b, err := json.MarshalIndent(e.Document(), "", "  ")
				if err != nil {
					return err
				}
				fmt.Fprintf(a.out, "%s\n", b)
			} else {
				fmt.Fprint(a.out, e.Text())
			}
			a.remember(s)
			return nil
		},
		ValidArgsFunction: a.completeNodes,
	}
}

// completeNodes offers the addresses of the campaign.
func (a *app) completeNodes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := a.view(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for i := range s.Graph.Actions {
		out = append(out, s.Graph.Actions[i].Addr)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
