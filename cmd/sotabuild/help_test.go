package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestHelpIsForPeople reads the help of every command: each says what it does,
// and each flag's value has a name of the field or of Go's simple types, never
// that of a Go type with a meaning of its own.
func TestHelpIsForPeople(t *testing.T) {
	a := &app{}
	forEachCommand(a.root(nil), func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short is %q", c.CommandPath(), c.Short)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name, _ := pflag.UnquoteUsage(f)
			if strings.ContainsAny(name, " []") || strings.HasSuffix(name, "Slice") || strings.HasSuffix(name, "Array") || name == "strings" {
				t.Errorf("%s --%s takes a %q", c.CommandPath(), f.Name, name)
			}
			if f.DefValue == "[]" && strings.Contains(f.Value.Type(), "float") {
				t.Errorf("%s --%s has the default %q", c.CommandPath(), f.Name, f.DefValue)
			}
		})
		if long := strings.TrimSpace(c.Long); strings.HasPrefix(long, "Datasets:") {
			t.Errorf("%s does not say what it does", c.CommandPath())
		}
	})
}

// forEachCommand walks the commands for people.
func forEachCommand(c *cobra.Command, do func(*cobra.Command)) {
	if c.Hidden || c.Name() == "completion" {
		return
	}
	do(c)
	for _, sub := range c.Commands() {
		forEachCommand(sub, do)
	}
}

// TestChoicesAreOfFlags: a flag that was renamed has no words left in the table.
func TestChoicesAreOfFlags(t *testing.T) {
	flags := map[string]bool{}
	a := &app{}
	forEachCommand(a.root(nil), func(c *cobra.Command) {
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "sotabuild"), " ")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { flags[path+" --"+f.Name], flags[" --"+f.Name] = true, true })
	})
	for _, x := range choices {
		if !flags[x.command+" --"+x.flag] || len(x.words()) == 0 {
			t.Errorf("no flag %q --%s, or no words for it", x.command, x.flag)
		}
	}
}
