package lang

import (
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// This file tells of names, labels and blocks that cannot stand where they stand.

func (d *decoder) missingBlock(path string, row *Block) {
	where := "The campaign"
	r := Range{File: mainFile}
	if path != "" {
		_, name := split(path)
		where = "The " + name
		r = d.at[path]
	}
	label := ""
	if row.Label != "" {
		label = " \"NAME\""
	}
	d.p.add(cMissing, r, "%s has no %s block. Write:\n  %s%s { … }\nIts meaning: %s", where, row.name(), row.name(), label, row.Doc)
}

func (d *decoder) twice(row *Block, b, before *hclsyntax.Block, label string) {
	what := "a second block " + strconv.Quote(b.Type)
	if row.Many {
		what += " with the label " + strconv.Quote(label)
	}
	x := d.p.add(cDuplicate, rangeOf(b.DefRange()), "This is %s, and the first one is not extended by it. Put everything into one block.", what)
	x.Related = []Range{rangeOf(before.DefRange())}
}

func (d *decoder) unknownBlock(path, place string, b *hclsyntax.Block, rows []*Block) {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name()
	}
	parent := blockAt(path)
	d.unsure[place+".*"] = true
	where := "a campaign"
	if path == "file" {
		where = "the file of a definition"
	}
	if parent != nil {
		where = "a " + parent.name() + " block"
		if _, isAttr := attrNamed(parent, b.Type); isAttr {
			d.p.add(cUnknownBlock, rangeOf(b.TypeRange), "%q is an attribute of %s, not a block. Write an equals sign: %s = …", b.Type, where, b.Type)
			d.unsure[place+"."+b.Type] = true
			return
		}
	}
	hint := didYouMean(b.Type, names)
	switch {
	case path == "" && topWords[b.Type] != "":
		hint = topWords[b.Type]
	case parent != nil && parent.Words[b.Type] != "":
		hint = parent.Words[b.Type]
	case b.Type == "dynamic":
		hint = "Blocks are repeated with for_each inside framework and scenario blocks."
	case hint == "" && len(names) == 0:
		hint = "No block stands there."
	case hint == "":
		hint = "The blocks there are " + strings.Join(names, ", ") + "."
	}
	d.p.add(cUnknownBlock, rangeOf(b.TypeRange), "There is no block %q in %s. %s", b.Type, where, hint)
}

// label returns the block's label, "" where the row has none.
func (d *decoder) label(row *Block, b *hclsyntax.Block) (string, bool) {
	switch {
	case row.Label == "" && len(b.Labels) > 0:
		d.p.add(cLabel, rangeOf(b.LabelRanges[0]), "A block %q has no label. Write: %s {", b.Type, b.Type)
		return "", false
	case row.Label == "":
		return "", true
	case len(b.Labels) != 1 || b.Labels[0] == "":
		d.p.add(cLabel, rangeOf(b.DefRange()), "A block %q has exactly one label, %s. Write: %s \"NAME\" {", b.Type, row.Label, b.Type)
		return "", false
	}
	label, at := b.Labels[0], rangeOf(b.LabelRanges[0])
	if row.Labels != nil {
		for _, l := range row.Labels {
			if l == label {
				return label, true
			}
		}
		hint := ""
		if len(row.Labels) > 1 {
			hint = didYouMean(label, row.Labels)
		}
		d.p.add(cLabel, at, "%q is no label of a block %q. Write %s. %s", label, b.Type, oneOf(row.Labels), hint)
		return "", false
	}
	if why := labelProblem(row, label); why != "" {
		d.p.add(cLabel, at, "The label %q cannot be used: %s. %s", label, why, canonicalHint(label))
		return "", false
	}
	return label, true
}

// labelProblem checks a free label. A campaign's name and a model's id come
// from outside and have wider rules than names that expressions use.
func labelProblem(row *Block, label string) string {
	switch row.Path {
	case "campaign":
		if !campaignName.MatchString(label) {
			return "a campaign's name has small letters, digits, points, dashes and underscores, because folders are named after it"
		}
	case "model":
		if !modelID.MatchString(label) {
			return "a model's id has letters, digits, points, dashes, underscores and slashes between them"
		}
	default:
		return nameProblem(label)
	}
	return ""
}

func (d *decoder) unknownAttr(row *Block, a *hclsyntax.Attribute) {
	at := rangeOf(a.NameRange)
	if hint, ok := row.Words[a.Name]; ok {
		d.p.add(cUnknownAttr, at, "A block %q has no attribute %q. %s", row.name(), a.Name, hint)
		return
	}
	if c := rowNamed(childrenOf(row.Path), a.Name); c != nil {
		d.p.add(cUnknownAttr, at, "%q is a block, not an attribute. Write it without the equals sign: %s {", a.Name, a.Name)
		return
	}
	hint := didYouMean(a.Name, row.attrNames())
	if hint == "" {
		hint = "Its attributes are " + strings.Join(row.attrNames(), ", ") + "."
	}
	d.p.add(cUnknownAttr, at, "A block %q has no attribute %q. %s", row.name(), a.Name, hint)
}
