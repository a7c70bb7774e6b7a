package profile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/local"
	"github.com/sotabuild/sotabuild/executors/supervisor"
)

// TestMain lets this binary be what a task starts: supervisor, clients, and
// the recorded ncu.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ncu" {
		os.Exit(recordedNCU(os.Args[1:]))
	}
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "runner":
			os.Exit(supervisor.Main(os.Args[2]))
		case "ncu-client":
			os.Exit(NCUMain(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// runNode runs one node as apply does and returns its record and the outputs.
func runNode(t *testing.T, d compile.Decl) (*cache.Record, map[string][]byte) {
	t.Helper()
	var b key.Builder
	b.Text("env.cpu", "", "test")
	g, problems := compile.Build([]compile.Decl{d}, compile.Env{Binding: b.Finish().Facts()})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	dir := t.TempDir()
	store, err := cache.OpenLocal(dir, cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p, bad := plan.Make(g, store, plan.Options{})
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	exec := local.New(self(t), filepath.Join(dir, "tasks"))
	_, err = sched.Run(t.Context(), sched.Config{
		Graph: g, Plan: p, Store: store, Dir: filepath.Join(dir, "tasks"),
		Executor: func(string) executors.Executor { return exec },
		Run:      "t1", Tool: "test", Host: "test", Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := store.History(d.Addr)
	if len(h) != 1 {
		t.Fatalf("%d records, want 1", len(h))
	}
	out := map[string][]byte{}
	for _, o := range h[0].Outputs {
		if out[o.Name], err = store.Bytes(o.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return h[0], out
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
