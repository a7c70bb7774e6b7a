package main

import (
	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/bench/solo"
)

// choices are the values that a shell offers for a flag: of one command, by the
// path below the program, or where that is empty of every command that has it.
var choices = []struct {
	command, flag string
	words         func() []string
}{
	{"", "color", these("auto", "always", "never")},
	{"", "executor", executorKinds},
	{"", "backend", these("openai", "openai-chat", "sglang", "llamacpp")},
	{"", "dataset-name", datasetNames},
	{"", "ramp-up-strategy", these("linear", "exponential")},
	{"", "precision", these("bf16", "fp16", "fp32", "fp8")},
	{"", "form", these("vllm", "seed")},
	{"plan", "format", these("markdown")},
	{"graph", "format", these("dot", "mermaid", "json")},
	{"report", "format", these("md", "json", "csv", "html")},
	{"schema", "format", these("json", "markdown")},
	{"trace diff", "format", these("md", "json", "csv")},
	{"trace layers", "format", these("md", "json", "csv")},
	{"trace triage", "format", these("md", "json", "csv")},
	{"profile", "stage", these("prefill", "decode")},
	{"ncu run", "stage", these("prefill", "decode", "mixed")},
	{"ncu harness", "stage", these("prefill", "decode", "mixed")},
}

func these(words ...string) func() []string { return func() []string { return words } }

func executorKinds() (names []string) {
	for _, k := range lang.ExecutorKinds {
		names = append(names, k.Name)
	}
	return names
}

func datasetNames() (names []string) {
	for _, k := range solo.Kinds() {
		names = append(names, k[0])
	}
	return names
}

// offer tells the shell what the flags of a command, and of those below it, may
// be: words of the table, nodes, or else files.
func (a *app) offer(c *cobra.Command, path string) {
	for _, sub := range c.Commands() {
		below := sub.Name()
		if path != "" {
			below = path + " " + below
		}
		a.offer(sub, below)
	}
	for _, x := range choices {
		if x.command == "" || x.command == path {
			offerFor(c, x.flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return x.words(), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
	offerFor(c, "target", a.completeNodes)
	offerFor(c, "replace", a.completeNodes)
}

// offerFor registers nothing where a command of its own lacks the flag, or uses
// the name for something else: init's target is a framework.
func offerFor(c *cobra.Command, flag string, words cobra.CompletionFunc) {
	f := c.LocalNonPersistentFlags().Lookup(flag)
	if f == nil {
		f = c.PersistentFlags().Lookup(flag)
	}
	if f == nil || flag == "target" && f.Value.Type() != "stringArray" {
		return
	}
	if err := c.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic("sotabuild: a flag completes twice: " + err.Error())
	}
}
