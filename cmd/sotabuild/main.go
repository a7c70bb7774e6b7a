// Command sotabuild plans and applies campaigns: which serving framework is
// fastest for a model on given GPUs under an SLA.
//
// This room holds flags, colours, exit codes and wiring, one file a command;
// decisions live below.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// commands lists every command, in the order of the help text. Hidden ones are
// what sotabuild starts itself as.
var commands = []func(*app) *cobra.Command{
	initCommand,
	validateCommand,
	fmtCommand,
	schemaCommand,
	lspCommand,
	importCommand,
	planCommand,
	applyCommand,
	showCommand,
	explainCommand,
	reportCommand,
	profileCommand,
	traceCommand,
	ncuCommand,
	simserveCommand,
	versionCommand,
	runnerCommand,
	clientCommand,
	profileClientCommand,
	ncuClientCommand,
}

// app is what every command gets: where the campaign lies and where to write.
type app struct {
	in       io.Reader
	out, err io.Writer
	dir      string
	store    string
	vars     []string
	color    string
	json     bool
}

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(int(a.run(context.Background(), os.Args[1:])))
}

// run is the whole program without the process around it.
func (a *app) run(ctx context.Context, args []string) code {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err != nil && isUsage(err) {
		err = fail(codeUsage, err, "`"+root.CommandPath()+" --help` lists commands and flags")
	}
	return complain(a.err, err)
}

// usageError marks what cobra found wrong with the command line.
type usageError struct{ error }

func isUsage(err error) bool {
	_, ok := err.(usageError)
	return ok || strings.HasPrefix(err.Error(), "unknown command")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sotabuild",
		Short: "Find the fastest serving framework, reproducibly",
		Long: "sotabuild compiles one reviewed campaign.hcl into a content-hashed graph of tasks,\n" +
			"says what is stale and why (plan), and runs only that (apply).",
		SilenceUsage: true, SilenceErrors: true, Version: version(),
	}
	root.SetVersionTemplate("sotabuild {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVarP(&a.dir, "dir", "C", ".", "folder of the campaign")
	flags.StringVar(&a.store, "store", "", "folder of the store (default DIR/.sotabuild)")
	flags.StringArrayVar(&a.vars, "var", nil, "set a variable, NAME=VALUE; may be repeated")
	flags.StringVar(&a.color, "color", "auto", "auto, always or never; NO_COLOR is obeyed")
	flags.BoolVar(&a.json, "json", false, "machine-readable output")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	for _, c := range commands {
		cmd := c(a)
		if args := cmd.Args; args != nil {
			cmd.Args = func(c *cobra.Command, given []string) error {
				if err := args(c, given); err != nil {
					return usageError{err}
				}
				return nil
			}
		}
		root.AddCommand(cmd)
	}
	root.AddCommand(exitCodesTopic(a))
	return root
}

// exitCodesTopic is a help page, not a command.
func exitCodesTopic(*app) *cobra.Command {
	var b strings.Builder
	for _, c := range codes {
		fmt.Fprintf(&b, "  %3d  %s\n", c.code, c.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: "Exit codes:\n\n" + b.String()}
}
