package lang

import "slices"

// Block is one row of the schema: a kind of block with its attributes. The
// table drives decoding, every check of form, and the reference pages.
type Block struct {
	Path     string // "framework.search"; the parent's path is before the last point
	Label    string // what its label is; "" where it has none
	Many     bool   // may stand more than once; else a second one is an error
	Required bool
	Always   bool // its defaults hold where it is not written
	Doc      string
	Rules    string // ids of the rules that it serves
	Attrs    []Attr
	// Words are words that people write for something else here, each with what
	// to write instead.
	Words map[string]string
	// Labels are the allowed labels; nil allows every name.
	Labels []string

	open  func(header) any
	close func(parent, self any)
}

// header is the first line of a block: its label as written, and its name,
// which is LABEL_KEY in a for_each.
type header struct {
	label, name string
	at          Range
}

// Attr is one attribute of a block.
type Attr struct {
	Name     string
	Type     Type
	Unit     string // of a bare number
	Required bool
	Default  string // as an expression; "" has none
	Doc      string
	Rules    string
	set      func(block, value any)
}

// Schema returns the language: every block of a campaign and of a framework
// definition, in display order. The caller keeps it unchanged.
func Schema() []Block { return schema }

var schema = slices.Concat(campaignBlocks, workloadBlocks, frameworkBlocks, judgeBlocks, runBlocks, definitionBlocks)

// forEach stands in the blocks that may be repeated by for_each.
const forEach = "for_each"

// into makes a setter from a typed function, so that a row reads like an
// assignment. A row whose function does not fit its type is caught by a test.
func into[B, V any](f func(*B, V)) func(block, value any) {
	return func(block, value any) { f(block.(*B), value.(V)) }
}

// within makes a closing function that hands a finished block to its parent.
func within[P, B any](f func(*P, *B)) func(parent, self any) {
	return func(parent, self any) { f(parent.(*P), self.(*B)) }
}

// blockAt finds the row of a path.
func blockAt(path string) *Block {
	for i := range schema {
		if schema[i].Path == path {
			return &schema[i]
		}
	}
	return nil
}

// childrenOf lists the rows below a path, one level; "" is the top of a
// campaign file.
func childrenOf(path string) []*Block {
	var list []*Block
	for i := range schema {
		parent, _ := split(schema[i].Path)
		if parent == path {
			list = append(list, &schema[i])
		}
	}
	return list
}

func split(path string) (parent, name string) {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' {
			return path[:i], path[i+1:]
		}
	}
	return "", path
}

func (b *Block) name() string {
	_, n := split(b.Path)
	return n
}

func (b *Block) attrNames() []string {
	names := make([]string, len(b.Attrs))
	for i, a := range b.Attrs {
		names[i] = a.Name
	}
	return names
}
