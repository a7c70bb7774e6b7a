package lang

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// builtins are the definitions that ship with the tool, read from their
// folder: this room imports nothing of the others.
var builtins = os.DirFS("../stdlib/frameworks")

// loadFiles loads a campaign from files of an archive, in a folder of its own.
func loadFiles(t testing.TB, a *txtar.Archive, in Input) (*Campaign, Diagnostics) {
	t.Helper()
	in.Dir, in.Definitions = filepath.Join(t.TempDir(), "campaign"), builtins
	for _, f := range a.Files {
		if f.Name == "want" {
			continue
		}
		path := filepath.Join(in.Dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, diags := Load(in)
	if c != nil && diags.HasErrors() {
		t.Error("Load returned a campaign beside an error")
	}
	if c == nil && !diags.HasErrors() {
		t.Error("Load returned neither a campaign nor an error")
	}
	return c, diags
}

// inputOf reads the lines "var NAME=VALUE" and "env NAME=VALUE" of a comment.
func inputOf(a *txtar.Archive) Input {
	in := Input{Vars: map[string]string{}, Env: map[string]string{}}
	for line := range strings.Lines(string(a.Comment)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, value, ok := strings.Cut(rest, "=")
		switch {
		case ok && kind == "var":
			in.Vars[name] = value
		case ok && kind == "env":
			in.Env[name] = value
		}
	}
	return in
}

// golden runs each archive of a folder and compares with its file "want",
// which SOTABUILD_UPDATE=1 rewrites.
func golden(t *testing.T, folder string, atLeast int, got func(*testing.T, *txtar.Archive) string) {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(files) < atLeast {
		t.Fatalf("%d cases in %s, want at least %d (%v)", len(files), folder, atLeast, err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			for _, f := range a.Files {
				if f.Name == "want" {
					want = string(f.Data)
				}
			}
			text := got(t, a)
			if os.Getenv("SOTABUILD_UPDATE") == "1" {
				write(t, path, a, text)
				return
			}
			if diff := cmp.Diff(want, text); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func write(t *testing.T, path string, a *txtar.Archive, text string) {
	t.Helper()
	files := a.Files[:0:0]
	for _, f := range a.Files {
		if f.Name != "want" {
			files = append(files, f)
		}
	}
	a.Files = append(files, txtar.File{Name: "want", Data: []byte(text)})
	if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBadCampaigns(t *testing.T) {
	golden(t, "bad", 60, func(t *testing.T, a *txtar.Archive) string {
		c, diags := loadFiles(t, a, inputOf(a))
		if c != nil {
			t.Error("the campaign loaded")
		}
		checkForm(t, diags)
		return diags.Text(false)
	})
}

func TestBadDefinitions(t *testing.T) {
	golden(t, "definitions", 15, func(t *testing.T, a *txtar.Archive) string {
		c, diags := loadFiles(t, a, inputOf(a))
		if c != nil {
			t.Error("the campaign loaded")
		}
		checkForm(t, diags)
		return diags.Text(false)
	})
}

func TestGoodCampaigns(t *testing.T) {
	golden(t, "good", 5, func(t *testing.T, a *txtar.Archive) string {
		c, diags := loadFiles(t, a, inputOf(a))
		if c == nil {
			t.Fatalf("the campaign did not load:\n%s", diags.Text(false))
		}
		checkForm(t, diags)
		return anonymous(c.Dir, diags.Text(false)+dump(c))
	})
}

// anonymous writes the folder of a test's campaigns as ROOT.
func anonymous(dir, text string) string { return strings.ReplaceAll(text, filepath.Dir(dir), "ROOT") }

// checkForm checks what holds for every diagnostic.
func checkForm(t *testing.T, diags Diagnostics) {
	t.Helper()
	for i, d := range diags {
		if n := len(strings.Fields(d.Summary)); n == 0 || n > 6 {
			t.Errorf("summary of %d words: %q", n, d.Summary)
		}
		if d.Detail == "" || d.Code == "" {
			t.Errorf("diagnostic without detail or code: %+v", d)
		}
		if i > 0 && diags[i-1].Range.File == d.Range.File && diags[i-1].Range.Line > d.Range.Line {
			t.Errorf("%s stands after %s", d.Range, diags[i-1].Range)
		}
	}
}

// dump writes a campaign as lines, without places and without what is zero.
func dump(c *Campaign) string {
	var b strings.Builder
	dumpValue(&b, "", reflect.ValueOf(*c))
	return b.String()
}

func dumpValue(b *strings.Builder, path string, v reflect.Value) {
	switch x := v.Interface().(type) {
	case Range, []File:
		return
	case time.Duration:
		if x != 0 {
			fmt.Fprintf(b, "%s = %s\n", path, x)
		}
		return
	case Value:
		fmt.Fprintf(b, "%s = %s (%T)\n", path, x.Text(), x.Any())
		return
	case Predicate:
		fmt.Fprintf(b, "%s = %s\n", path, x.Text())
		return
	case *Definition:
		fmt.Fprintf(b, "%s = %s from %s\n", path, x.Name, x.Source)
		if !strings.HasPrefix(x.Source, builtinPrefix) { // the built-in ones have tests of their own
			dumpValue(b, path, reflect.ValueOf(*x))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			inner := path + "." + v.Type().Field(i).Name
			if v.Type().Field(i).Anonymous {
				inner = path
			}
			dumpValue(b, strings.TrimPrefix(inner, "."), v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			dumpValue(b, path, v.Elem())
		} else if v.Type().Elem().Kind() == reflect.Int {
			fmt.Fprintf(b, "%s = null\n", path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			dumpValue(b, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		for _, k := range sortedNames(v.Interface().(map[string]string)) {
			fmt.Fprintf(b, "%s[%q] = %q\n", path, k, v.MapIndex(reflect.ValueOf(k)))
		}
	default:
		if !v.IsZero() {
			fmt.Fprintf(b, "%s = %v\n", path, v.Interface())
		}
	}
}
