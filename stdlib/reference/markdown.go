package reference

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/sotabuild/sotabuild/lang"
)

//go:embed preface.md
var preface string

// Markdown is the reference for people. stops is the text of the prescribed
// stop predicates.
func Markdown(stops string) string {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString("\n## Blocks of a campaign\n")
	definitions := false
	for _, row := range lang.Schema() {
		if !definitions && strings.HasPrefix(row.Path, definitionRoot) {
			definitions = true
			b.WriteString("\n## Blocks of a framework definition\n\n" +
				"A definition stands in `NAME.framework.hcl` beside the campaign; the built-in ones are written the same way and cannot be replaced.\n" +
				"[tinyserve.hcl](../stdlib/frameworks/tinyserve.hcl) and [llamacpp.hcl](../stdlib/frameworks/llamacpp.hcl) are whole ones to begin from; a campaign takes one by `use = \"NAME\"`.\n")
		}
		block(&b, row)
	}
	functions(&b)
	facts(&b)
	b.WriteString("\n## The prescribed stop predicates\n\nEvery loop has these, in this order. A campaign may add its own and cannot change them.\n\n```hcl\n" + stops + "```\n")
	return b.String()
}

func block(b *strings.Builder, row lang.Block) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", strings.TrimPrefix(row.Path, "file."), row.Doc)
	how := []string{"Stands " + within(row)}
	switch {
	case row.Required && row.Many:
		how = append(how, "at least one is required")
	case row.Required:
		how = append(how, "required")
	case row.Many:
		how = append(how, "any number")
	default:
		how = append(how, "at most one")
	}
	if row.Always {
		how = append(how, "its defaults hold without it")
	}
	if row.Label != "" {
		label := "its label is " + row.Label
		if row.Labels != nil {
			label += ": `" + strings.Join(row.Labels, "`, `") + "`"
		}
		how = append(how, label)
	}
	fmt.Fprintf(b, "%s.%s\n", strings.Join(how, "; "), rules(row.Rules))
	if len(row.Attrs) > 0 {
		b.WriteString("\n| attribute | takes | default | meaning |\n| --- | --- | --- | --- |\n")
	}
	for _, a := range row.Attrs {
		takes := a.Type.Name
		if a.Unit != "" && !strings.Contains(takes, a.Unit) {
			takes += "; " + a.Unit
		}
		preset := "–"
		switch {
		case a.Required:
			preset = "required"
		case a.Default != "":
			preset = "`" + a.Default + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s%s |\n", a.Name, cell(takes), cell(preset), cell(a.Doc), rules(a.Rules))
	}
	if text, ok := Example(row.Path); ok {
		fmt.Fprintf(b, "\n```hcl\n%s```\n", text)
	}
	if row.Path == "executor" {
		executors(b)
	}
}

// executors lists the kinds of executors, each with the options that it takes.
func executors(b *strings.Builder) {
	b.WriteString("\nThe labels, and the `options` of each. `executor` blocks of a framework take the same.\n\n| label | option | takes | meaning |\n| --- | --- | --- | --- |\n")
	for _, k := range lang.ExecutorKinds {
		fmt.Fprintf(b, "| `%s` | | | %s |\n", k.Name, cell(k.Doc))
		for _, o := range k.Options {
			fmt.Fprintf(b, "| | `%s` | %s | %s |\n", o.Name, cell(o.Takes()), cell(o.Doc))
		}
	}
}

func rules(ids string) string {
	if ids == "" {
		return ""
	}
	return " (" + strings.Join(strings.Fields(ids), ", ") + ")"
}

// cell keeps a text within its cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func functions(b *strings.Builder) {
	b.WriteString("\n## Functions\n\nThe list is fixed and short: none reads the outside, none makes much from little.\n\n| function | meaning | example | gives |\n| --- | --- | --- | --- |\n")
	for _, f := range lang.Functions() {
		fmt.Fprintf(b, "| `%s` | %s | `%s` | `%s` |\n", f.Usage, cell(f.Doc), cell(f.Example), cell(f.Gives))
	}
}

func facts(b *strings.Builder) {
	b.WriteString("\n## Facts that are known later\n\nThey stand in `when` of stop and gate blocks, texts among them also in the commands of a loop. A condition needs every fact that it names; an unknown one is an error.\n\n| fact | type | meaning |\n| --- | --- | --- |\n")
	for _, f := range lang.Facts() {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Name, f.Type, cell(f.Doc))
	}
}
