package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
)

func graphCommand(a *app) *cobra.Command {
	var format string
	var actions bool
	var targets []string
	cmd := &cobra.Command{
		Use: "graph", Short: "Draw the campaign's blocks, or its nodes, in dot, mermaid or JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.view(cmd.Context())
			if err != nil {
				return err
			}
			p, err := picture(s, actions, targets)
			if err != nil {
				return err
			}
			if a.json {
				if cmd.Flags().Changed("format") && format != "json" {
					return fail(codeUsage, fmt.Errorf("--format %s and --json are two forms; leave one of them out", format))
				}
				format = "json"
			}
			switch format {
			case "dot":
				fmt.Fprint(a.out, p.Dot())
			case "mermaid":
				fmt.Fprint(a.out, p.Mermaid())
			case "json":
				b, err := p.JSON()
				if err != nil {
					return err
				}
				if _, err := a.out.Write(b); err != nil {
					return err
				}
			default:
				return fail(codeUsage, fmt.Errorf("--format %q: write dot, mermaid or json", format))
			}
			a.remember(s.ground)
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "dot", "dot, mermaid or json")
	cmd.Flags().BoolVar(&actions, "actions", false, "every node, with order edges dashed, instead of the blocks")
	cmd.Flags().StringArrayVar(&targets, "target", nil, "only this `NODE` or block and what it needs; may be repeated")
	return cmd
}

// picture draws blocks or actions, all or what the targets need. Of blocks that
// is what feeds them; of actions also what only comes before them.
func picture(s *session, actions bool, targets []string) (graph.Picture, error) {
	g := s.Graph
	marked := make([]bool, len(g.Actions))
	var wrong problemsError
	for _, t := range targets {
		ids, problem := g.Select(t)
		if problem != nil {
			wrong = append(wrong, *problem)
		}
		for _, id := range ids {
			marked[id] = true
		}
	}
	if len(wrong) > 0 {
		return graph.Picture{}, fail(codeUsage, wrong, "`sotabuild plan --all` lists every node, `sotabuild graph` every block")
	}
	if !actions {
		return blockPicture(g, marked, len(targets) == 0)
	}
	g.Ancestors(marked)
	names := map[string]bool{}
	for i := range g.Actions {
		names[g.Actions[i].Addr] = len(targets) == 0 || marked[i]
	}
	return g.Picture().Only(names), nil
}

func blockPicture(g *compile.Graph, marked []bool, all bool) (graph.Picture, error) {
	blocks, err := g.Blocks()
	if err != nil {
		return graph.Picture{}, fail(codeError, err, "`sotabuild graph --actions` draws the nodes themselves")
	}
	if all {
		return blocks.Picture(), nil
	}
	names := map[string]bool{}
	for i := range g.Actions {
		block := g.Actions[i].Block
		if !marked[i] || names[block] {
			continue
		}
		before, err := blocks.Ancestors(block)
		if err != nil {
			return graph.Picture{}, err
		}
		for _, name := range append(before, block) {
			names[name] = true
		}
	}
	return blocks.Picture().Only(names), nil
}
