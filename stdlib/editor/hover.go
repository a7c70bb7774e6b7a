package editor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/lang"
)

// hover says what the name at a place means; null where there is none.
func (s *server) hover(path, text string, at position) any {
	offset := offsetOf(text, at)
	word, from, to := wordAt(text, offset)
	says := s.explain(path, text, to, word)
	if says == "" {
		return nil
	}
	return hover{markdown(says), span{positionOf(text, from), positionOf(text, to)}}
}

func (s *server) explain(path, text string, end int, word string) string {
	dir, name := split(path)
	p := lang.At(name, []byte(text), end)
	row, inBlock := rowOf(p.Path)
	switch {
	case word == "" || p.Path == "?" || p.Label != "":
		return ""
	case p.Attr == "":
		if a, ok := attrOf(row, word); inBlock && ok {
			return about(a)
		}
		for _, b := range childrenOf(p.Path) {
			if nameOf(b) == word {
				return block(b)
			}
		}
		return ""
	case p.AtKey && slices.Contains(flagObjects, p.Path+"."+p.Attr):
		return s.explainFlag(dir, p.Labels["framework"], word)
	}
	for _, f := range lang.Facts() {
		if f.Name == word {
			return fmt.Sprintf("`%s`: %s, known while the campaign runs.\n\n%s", f.Name, f.Type, f.Doc)
		}
	}
	for _, x := range s.declared(dir) {
		if prefixes[x.Kind] != "" && prefixes[x.Kind]+x.Name == word {
			return "```hcl\n" + snippet(s.text(x.path), x.Whole) + "\n```"
		}
	}
	for _, f := range lang.Functions() {
		if f.Name == word {
			return fmt.Sprintf("`%s`: %s\n\n`%s` is `%s`.", f.Usage, f.Doc, f.Example, f.Gives)
		}
	}
	return ""
}

func block(b lang.Block) string {
	says := b.Doc
	if b.Label != "" {
		says += "\n\nIts label is " + b.Label + "."
	}
	if b.Rules != "" {
		says += "\n\nRules: " + strings.Join(strings.Fields(b.Rules), ", ")
	}
	return says
}

func (s *server) explainFlag(dir, label, word string) string {
	var says []string
	real := word
	if d := s.definitionOf(dir, label); d != nil {
		if to := d.Flags.Aliases[word]; to != "" {
			real = to
			says = append(says, fmt.Sprintf("Another spelling of `%s`.", to))
		}
		if why := d.Flags.NotSearched[real]; why != "" {
			says = append(says, "Not searched: "+why)
		}
	}
	for _, f := range s.known(dir, label) {
		if f.Name != real {
			continue
		}
		says = append(says, f.Doc)
		if len(f.Choices) > 0 {
			says = append(says, "One of "+strings.Join(f.Choices, ", ")+".")
		}
	}
	if len(says) == 0 {
		return ""
	}
	return fmt.Sprintf("`%s` of %s.\n\n%s", word, label, strings.Join(says, "\n\n"))
}

// snippet is the source of a range, whole lines.
func snippet(text string, r lang.Range) string {
	var lines []string
	for n := r.Line; n <= max(r.EndLine, r.Line); n++ {
		lines = append(lines, line(text, n-1))
	}
	return strings.Join(lines, "\n")
}

// definition goes to where a variable, a local value, a framework, a scenario or
// a framework definition is declared.
func (s *server) definition(path, text string, at position) any {
	dir, name := split(path)
	offset := offsetOf(text, at)
	word, _, to := wordAt(text, offset)
	p := lang.At(name, []byte(text), to)
	row := p.Path + "." + p.Attr
	wanted := func(x named) bool {
		if prefixes[x.Kind] != "" {
			return !p.Quoted && prefixes[x.Kind]+x.Name == word
		}
		switch {
		case x.Name != word:
			return false
		case p.Label == "framework", row == "framework.use":
			return x.Kind == "definition"
		case slices.Contains([]string{"campaign.target", "campaign.compare", "trace.framework"}, row):
			return x.Kind == "framework"
		case strings.HasPrefix(p.Path, "loop.") && p.Attr == "when":
			return x.Kind == "scenario"
		}
		return false
	}
	list := []location{}
	for _, x := range s.declared(dir) {
		if wanted(x) {
			list = append(list, location{uriOf(x.path), spanOf(s.text(x.path), x.Range)})
		}
	}
	if len(list) == 0 && (p.Label == "framework" || row == "framework.use") && slices.Contains(s.builtins(), word) && s.options.Builtin != nil {
		if file := s.options.Builtin(word); file != "" {
			list = append(list, location{uriOf(file), span{}})
		}
	}
	return list
}
