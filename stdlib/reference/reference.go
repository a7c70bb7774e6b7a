// Package reference writes the reference of the campaign language: pages for
// people and JSON Schema for editors. Both come from the one table that the
// loader uses (lang.Schema), so that they cannot say anything else than what it
// does. The functions are pure; nothing is read but what is compiled in.
//
// Each block has an example in examples/PATH.hcl. An example is the blocks that
// it shows, with the others of a smallest campaign left out; Example completes
// it, and a test loads every one.
package reference

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/sotabuild/sotabuild/lang"
)

//go:embed examples/*.hcl
var examples embed.FS

// Example is the example of a block as the pages show it; false if it has none.
func Example(path string) (string, bool) {
	b, err := examples.ReadFile("examples/" + path + ".hcl")
	return string(b), err == nil
}

// definitionRoot is the path below which the blocks of definitions stand.
const definitionRoot = "file.definition"

// smallest are the blocks that every campaign, and every definition, needs.
var smallest = []struct{ block, text string }{
	{"campaign", "campaign \"example\" {\n  target  = \"vllm\"\n  compare = []\n}\n"},
	{"model", "model \"Qwen/Qwen3-8B\" {\n  vocab = [0, 151643]\n}\n"},
	{"framework", "framework \"vllm\" {\n  program  = \"/opt/vllm/bin/vllm\"\n  checkout = \"/src/vllm\"\n  flags    = { max_model_len = 9000 }\n}\n"},
}

var smallestDefinition = []struct{ block, text string }{
	{"help", "  help \"server\" {\n    command = [\"{program}\", \"--help\"]\n  }\n"},
	{"server", "  server {\n    command = [\"{program}\", \"{model}\", \"--port\", \"{port}\", \"{flags}\"]\n  }\n"},
}

// Complete adds to an example what a campaign needs beside it. The result is
// files by name.
func Complete(path, text string) map[string][]byte {
	if !strings.HasPrefix(path, definitionRoot) {
		return map[string][]byte{"campaign.hcl": []byte(complete(text, smallest))}
	}
	if path != definitionRoot {
		text = "definition \"mine\" {\n" + complete(text, smallestDefinition) + "}\n"
	}
	campaign := "framework \"mine\" {\n  program = \"/opt/mine\"\n  flags   = { max_len = 100 }\n}\n" +
		"campaign \"example\" {\n  target  = \"mine\"\n  compare = []\n  smoke   = true\n}\n" +
		"scenario \"short\" {\n  input_len  = 10\n  output_len = 10\n}\n"
	return map[string][]byte{"campaign.hcl": []byte(complete(campaign, smallest)), "mine.framework.hcl": []byte(text)}
}

// complete adds the blocks of which the text has none at its top.
func complete(text string, blocks []struct{ block, text string }) string {
	for _, b := range blocks {
		if !regexp.MustCompile(`(?m)^` + b.block + `\b.*\{`).MatchString(text) {
			text += b.text
		}
	}
	return text
}

// shown is a block's name as it stands in a file.
func shown(b lang.Block) string {
	name := strings.TrimPrefix(b.Path, "file.")
	return name[strings.LastIndex(name, ".")+1:]
}

// within names the block around a block, or says that it stands at the top.
func within(b lang.Block) string {
	path := strings.TrimPrefix(b.Path, "file.")
	i := strings.LastIndex(path, ".")
	switch {
	case i >= 0:
		return fmt.Sprintf("in [%s](#%s)", path[:i], anchor(path[:i]))
	case strings.HasPrefix(b.Path, "file."):
		return "at the top of a `*.framework.hcl` file"
	}
	return "at the top of a campaign file"
}

func anchor(path string) string {
	return strings.NewReplacer(".", "", " ", "-").Replace(strings.ToLower(path))
}
