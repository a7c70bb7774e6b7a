// Command sotabuild plans and applies campaigns: which serving framework is
// fastest for a model on given GPUs under an SLA.
//
// This room holds flags, colours, exit codes and wiring, one file a command;
// decisions live below.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sotabuild/sotabuild/internal/garbage"
	"github.com/sotabuild/sotabuild/lang"
)

// commands lists every command for people, in the order of the help text.
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
	graphCommand,
	cacheCommand,
	imageCommand,
	doctorCommand,
	reportCommand,
	benchCommand,
	profileCommand,
	traceCommand,
	ncuCommand,
	simserveCommand,
	versionCommand,
}

// inside lists what sotabuild starts itself as: the hidden commands.
var inside = []func(*app) *cobra.Command{
	runnerCommand,
	slurmJobCommand,
	ociWatchCommand,
	ociEnterCommand,
	clientCommand,
	profileClientCommand,
	ncuClientCommand,
	probeClientCommand,
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
	checking bool     // diagnostics are all that the command has to say
	said     []string // warnings about the choice of executors
	executor string   // overrides the campaign's; "" does not
	stale    bool     // facts of the last time will do
	fixed    *inputs  // of a saved plan; nil: what is given counts
}

func main() {
	garbage.Spare()
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(int(a.run(context.Background(), os.Args[1:])))
}

// run is the whole program without the process around it.
func (a *app) run(ctx context.Context, args []string) code {
	out := &output{Writer: a.out}
	a.out = out
	root := a.root(args)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	if dropped := a.dropTemps(); err == nil {
		err = dropped
	}
	if err != nil && isUsage(err) {
		err = fail(codeUsage, err, "`"+cmd.CommandPath()+" --help` lists commands and flags")
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("writing the output: %w", out.err)
	}
	return complain(a.err, a.aboutStore(err))
}

// output remembers that something could not be written: most writers of lines
// have no use for the error, and a full disk must not look like a success.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// file is the file behind a writer or reader, if it is one.
func file(w any) (*os.File, bool) {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	return f, ok
}

// again is how a further command for the same campaign begins.
func (a *app) again() []string {
	if a.dir == "." {
		return []string{"sotabuild"}
	}
	return []string{"sotabuild", "-C", a.dir}
}

// usageError marks what cobra found wrong with the command line.
type usageError struct{ error }

func isUsage(err error) bool {
	_, ok := err.(usageError)
	return ok || strings.HasPrefix(err.Error(), "unknown command")
}

// root is the tree of commands for a command line.
func (a *app) root(args []string) *cobra.Command {
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
	flags.StringArrayVar(&a.vars, "var", nil, "set a variable, `NAME=VALUE`; may be repeated")
	flags.StringVar(&a.executor, "executor", "", "run tasks by this kind of executor, whatever the campaign says; no part of any key")
	flags.StringVar(&a.color, "color", "auto", "auto, always or never; NO_COLOR is obeyed")
	flags.BoolVar(&a.json, "json", false, "machine-readable output")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if a.color != "auto" && a.color != "always" && a.color != "never" {
			return usageError{fmt.Errorf("--color %q: write auto, always or never", a.color)}
		}
		return nil
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{nearestFlag(c, err)} })
	root.AddCommand(a.offered(args)...)
	root.AddCommand(exitCodesTopic(a))
	root.SetHelpCommand(helpCommand())
	root.InitDefaultCompletionCmd()
	a.offer(root, "")
	for _, c := range root.Commands() {
		strict(c)
	}
	return root
}

// nearestFlag adds to an unknown flag the one that was probably meant.
func nearestFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	if hint := lang.DidYouMean("--"+unknown.GetSpecifiedName(), names); hint != "" {
		return fmt.Errorf("%w. %s", err, hint)
	}
	return err
}

// offered makes the commands. A hidden one that is asked for comes alone: making
// all the others would cost each process of a task half a millisecond.
func (a *app) offered(args []string) []*cobra.Command {
	var made []*cobra.Command
	for _, make := range inside {
		c := make(a)
		if len(args) > 0 && c.Name() == args[0] {
			return []*cobra.Command{c}
		}
		made = append(made, c)
	}
	for _, make := range commands {
		made = append(made, make(a))
	}
	return made
}

// strict makes wrong arguments of a command, and of those below it, errors of
// usage. A command that only groups others is one that takes none.
func strict(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		strict(c)
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args, cmd.RunE = cobra.ArbitraryArgs, helpOfGroup
	}
	if args := cmd.Args; args != nil {
		cmd.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
}

// helpCommand is the library's, but for a topic that does not exist: there the
// library prints its help and exits with 0.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if at, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range at.Commands() {
					if !sub.Hidden {
						names = append(names, sub.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("there is no help about %q", strings.Join(args, " "))}
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// helpOfGroup is what a command that only groups others does by itself.
func helpOfGroup(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())}
	}
	return c.Help()
}

// exitCodesTopic is a help page, not a command.
func exitCodesTopic(*app) *cobra.Command {
	var b strings.Builder
	for _, c := range codes {
		fmt.Fprintf(&b, "  %3d  %s\n", c.code, c.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: "Exit codes:\n\n" + b.String()}
}
