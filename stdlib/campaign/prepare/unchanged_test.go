package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
)

// TestUnchanged replaces a program and a model behind a spec's back.
func TestUnchanged(t *testing.T) {
	dir := t.TempDir()
	program, model := filepath.Join(dir, "server"), filepath.Join(dir, "model")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(program, "one")
	write(filepath.Join(model, "weights"), "one")
	files, err := key.OpenFiles("")
	if err != nil {
		t.Fatal(err)
	}
	software, err := programDigest(program, "", files)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := files.Tree(model)
	if err != nil {
		t.Fatal(err)
	}
	h := campaign.Host{Program: program, Model: model}
	ask := campaign.AskSpec{Software: software, Host: h}
	bench := campaign.BenchSpec{Software: software, Model: campaign.ModelSpec{Weights: weights}, Life: campaign.Life{Host: h}}
	now := key.Sum([]byte("image"))
	image := campaign.AskSpec{Image: now.String(), Host: campaign.Host{Program: "/not/here", ImageID: now, Place: campaign.Place{Image: "vllm:1"}}}
	unchanged := Unchanged(files, func(campaign.Host) (key.Digest, error) { return now, nil })
	want := func(spec any, says string) {
		t.Helper()
		switch err := unchanged(spec); {
		case says == "" && err != nil:
			t.Errorf("%T: %v", spec, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%T: %v, want %q", spec, err, says)
		}
	}
	want(ask, "")
	want(bench, "")
	want(image, "")
	want(campaign.CheckSpec{}, "")
	now = key.Sum([]byte("another image"))
	want(image, "the image vllm:1 changed")
	write(filepath.Join(model, "weights"), "two")
	want(ask, "")
	want(bench, "the model "+model+" changed")
	write(filepath.Join(model, "weights"), "one")
	write(program, "two")
	want(ask, "the program "+program+" changed")
	want(bench, "the program "+program+" changed")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	want(ask, "no such file")
}

// TestUnchangedSeesWhatIsKeyed edits each file that a campaign names. What its
// nodes were keyed by has changed for exactly those that are keyed by other bytes
// when the host is read again.
func TestUnchangedSeesWhatIsKeyed(t *testing.T) {
	c := sample.Load(t, strings.NewReplacer(
		"  arrival     = \"inf\"\n", "  arrival     = \"inf\"\n  dataset     = \"jsonl\"\n  path        = \"prompts.jsonl\"\n",
		`use     = "tinyserve"
  program = "server"
  flags   = { kernel = "naive"`, `use     = "tinyserve"
  program = "server"
  tree    = "lib"
  flags   = { kernel = "naive"`,
	).Replace(sample.Text)+"accuracy {\n  path          = \"graded.jsonl\"\n  prompts       = 2\n  min_agreement = 0.9\n}\n")
	c.Model.Tokenizer = filepath.Join(c.Dir, "tokenizer")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(c.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inputs := []string{"server", "lib/module.py", "model/config.json", "tokenizer/vocab.txt", "prompts.jsonl", "graded.jsonl"}
	for _, name := range inputs {
		write(name, "one")
	}
	files, err := key.OpenFiles("")
	if err != nil {
		t.Fatal(err)
	}
	declared := func() []compile.Decl {
		t.Helper()
		f, _, diags := Reader{Files: files, Self: "self"}.Probe(t.Context(), c)
		if diags.HasErrors() {
			t.Fatal(diags.Text(false))
		}
		return campaign.Declare(c, f).Decls
	}
	specKey := func(spec any) key.Key {
		var b key.Builder
		if spec != nil {
			b.Struct(spec)
		}
		return b.Finish().Key()
	}
	unchanged := Unchanged(files, nil)
	before := declared()
	for _, name := range inputs {
		write(name, "two")
		saw := 0
		for i, now := range declared() {
			old := before[i]
			err := unchanged(old.Spec)
			if keyed := specKey(now.Spec) != specKey(old.Spec); keyed != (err != nil) {
				t.Errorf("%s: %s is keyed by it: %v, and what is said of it: %v", name, old.Addr, keyed, err)
			}
			if err != nil {
				saw++
			}
		}
		if saw == 0 {
			t.Errorf("no node is keyed by %s", name)
		}
		write(name, "one")
	}
}
