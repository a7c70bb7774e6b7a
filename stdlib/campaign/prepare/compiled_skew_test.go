package prepare

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
)

// TestCompiledFormOfAnotherBuild: a form whose nodes have other edges than this
// build's is refused, and nothing worse.
func TestCompiledFormOfAnotherBuild(t *testing.T) {
	dir := t.TempDir()
	decls := []compile.Decl{
		{Addr: "dataset.a", Kind: campaign.DatasetKind},
		{Addr: "help.a.server", Kind: campaign.HelpKind, Inputs: []compile.Input{{Name: "a", From: "dataset.a", Output: campaign.DatasetKind.Outputs[0]}}},
	}
	g, problems := compile.Build(decls, compile.Env{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	path := filepath.Join(dir, "compiled")
	if err := os.WriteFile(path, compile.Freeze(g, []byte(`{"name":"a"}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := OpenCompiled(path)
	if err != nil || k == nil {
		t.Fatal(k, err)
	}
	r, err := cache.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, ok := k.Outline(Origin{}, r, time.Now()); ok {
		t.Error("it is taken")
	}
}
