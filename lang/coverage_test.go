package lang

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/rogpeppe/go-internal/txtar"
)

// spot is an attribute of the schema where it is written in a file.
type spot struct {
	path string // "framework.search.space"
	at   hcl.Range
}

// spots lists the attributes of the schema that a file of an archive writes.
func spots(t *testing.T, f txtar.File) []spot {
	t.Helper()
	file, _ := hclsyntax.ParseConfig(f.Data, f.Name, hcl.InitialPos) // some are wrong on purpose
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		t.Fatalf("%s has no body", f.Name)
	}
	root := ""
	if strings.HasSuffix(f.Name, definitionSuffix) {
		root = "file"
	}
	var list []spot
	var walk func(path string, b *hclsyntax.Body)
	walk = func(path string, b *hclsyntax.Body) {
		if row := blockAt(path); row != nil {
			for _, a := range b.Attributes {
				if _, ok := attrNamed(row, a.Name); ok {
					list = append(list, spot{path + "." + a.Name, a.SrcRange})
				}
			}
		}
		for _, c := range b.Blocks {
			if row := rowNamed(childrenOf(path), c.Type); row != nil {
				walk(row.Path, c.Body)
			}
		}
	}
	walk(root, body)
	return list
}

// TestEveryAttributeHasBothCases walks the schema and wants each attribute in a
// campaign that loads, and as the place of an error in one that does not.
func TestEveryAttributeHasBothCases(t *testing.T) {
	good, bad := map[string]bool{}, map[string]bool{}
	eachArchive(t, "good", func(a *txtar.Archive) {
		for _, f := range a.Files {
			if strings.HasSuffix(f.Name, ".hcl") {
				for _, s := range spots(t, f) {
					good[s.path] = true
				}
			}
		}
	})
	for _, folder := range []string{"bad", "definitions"} {
		eachArchive(t, folder, func(a *txtar.Archive) {
			_, diags := loadFiles(t, a, inputOf(a))
			for _, f := range a.Files {
				if !strings.HasSuffix(f.Name, ".hcl") {
					continue
				}
				for _, s := range spots(t, f) {
					if slices.ContainsFunc(diags, func(d Diagnostic) bool {
						return d.Severity == Error && d.Range.File == f.Name && inRange(s.at, d.Range)
					}) {
						bad[s.path] = true
					}
				}
			}
		})
	}
	for i := range schema {
		for _, a := range schema[i].Attrs {
			path := schema[i].Path + "." + a.Name
			if !good[path] {
				t.Errorf("%s stands in no campaign of testdata/good", path)
			}
			if !bad[path] {
				t.Errorf("%s is refused in no campaign of testdata/bad or testdata/definitions", path)
			}
		}
	}
}

// inRange reports whether a diagnostic begins inside a range.
func inRange(r hcl.Range, d Range) bool {
	after := d.Line > r.Start.Line || d.Line == r.Start.Line && d.Col >= r.Start.Column
	before := d.Line < r.End.Line || d.Line == r.End.Line && d.Col < r.End.Column
	return after && before
}

func eachArchive(t *testing.T, folder string, visit func(*txtar.Archive)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, path := range files {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		visit(a)
	}
}
