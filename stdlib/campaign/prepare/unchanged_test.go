package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
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
