package plan

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
)

const (
	chatA1 = `bench.a["threads=1"].chat`
	chatA2 = `bench.a["threads=2"].chat`
)

// Each story is told to a world that begins empty, and ends with the campaign
// and the options that are planned.
func TestPlanText(t *testing.T) {
	type story func(t *testing.T, w *world) (campaign, Options)
	done := func(w *world, t *testing.T) campaign {
		w.output["help.a"], w.output["help.b"] = "usage: a", "usage: b"
		c := base()
		w.apply(c.graph(t))
		return c
	}
	for name, tell := range map[string]story{
		"empty":  func(*testing.T, *world) (campaign, Options) { return base(), Options{} },
		"cached": func(t *testing.T, w *world) (campaign, Options) { return done(w, t), Options{} },
		"flag_of_all_candidates_changed": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.base = 16
			return c, Options{}
		},
		"flag_of_one_candidate_changed": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.threads = []int{1, 4}
			return c, Options{}
		},
		"label_renamed": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.report = "report_of_week_48"
			return c, Options{}
		},
		"block_order_changed": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.reversed = true
			return c, Options{}
		},
		"scenario_added": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.scenarios = map[string]int{"chat": 100, "code": 800}
			return c, Options{}
		},
		"candidate_unlike_any_before": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.software = map[string]string{"a": "a 1.1", "b": "b 1.0"}
			c.threads, c.base, c.driver = []int{4}, 16, "590" // With threads four facts of a, two of b.
			return c, Options{}
		},
		"many_new": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			for threads := range 30 {
				c.threads = append(c.threads, 100+threads)
			}
			return c, Options{}
		},
		"program_changed": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.software = map[string]string{"a": "a 1.1", "b": "b 1.0"}
			return c, Options{}
		},
		"program_of_two_changed": func(t *testing.T, w *world) (campaign, Options) {
			// help.b was never run: its key was that of help.a.
			c := base()
			c.software = map[string]string{"a": "a 1.0", "b": "a 1.0"}
			w.apply(c.graph(t))
			c.software = map[string]string{"a": "a 1.1", "b": "a 1.1"}
			return c, Options{Targets: []string{"check.a", "check.b"}}
		},
		"program_changed_before_apply": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.software = map[string]string{"a": "a 1.1", "b": "b 1.0"}
			return c, Options{Targets: []string{"check.a"}}
		},
		"program_changed_and_help_run": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.software = map[string]string{"a": "a 1.1", "b": "b 1.0"}
			g := c.graph(t)
			id, _ := g.Lookup("help.a")
			m, _ := g.Manifest(id, nil)
			w.run(&g.Actions[id], m) // The help text is the same as before.
			return c, Options{Targets: []string{"check.a"}}
		},
		"renamed_below_a_changed_program": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.base, c.report = 16, "report_of_week_48"
			return c, Options{}
		},
		"kind_version_raised": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			second := *bench
			second.Version = 2
			c.benchKind = &second
			return c, Options{}
		},
		"driver_changed": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.driver = "590"
			return c, Options{}
		},
		"failed_not_kept": func(t *testing.T, w *world) (campaign, Options) {
			w.outcome[chatA1] = cache.Outcome{State: cache.Failed, Class: "timeout", Reason: "not healthy after 60 s"}
			return done(w, t), Options{}
		},
		"failed_and_kept": func(t *testing.T, w *world) (campaign, Options) {
			w.outcome[chatA1] = cache.Outcome{State: cache.Failed, Class: "oom", Reason: "does not fit", Keep: true}
			return done(w, t), Options{}
		},
		"failed_and_kept_without_outputs": func(t *testing.T, w *world) (campaign, Options) {
			w.outcome["help.a"] = cache.Outcome{State: cache.Failed, Class: "start_failed", Reason: "no such program", Keep: true}
			c := done(w, t)
			w.History("help.a")[0].Outputs = []cache.Output{{Name: "text", Digest: key.Sum([]byte("half a help"))}} // Not to be used.
			return c, Options{}
		},
		"rejected": func(t *testing.T, w *world) (campaign, Options) {
			w.outcome[chatA1] = cache.Outcome{State: cache.Rejected, Class: "throttled", Reason: "12 % of the time"}
			done(w, t)
			return done(w, t), Options{}
		},
		"rejected_and_output_lost": func(t *testing.T, w *world) (campaign, Options) {
			w.outcome[chatA1] = cache.Outcome{State: cache.Rejected, Reason: "12 % throttled"}
			c := done(w, t)
			w.gone[w.History(chatA1)[0].Output("row")] = true
			return c, Options{}
		},
		"output_lost": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			w.gone[w.History(chatA2)[0].Output("row")] = true
			return c, Options{}
		},
		"output_lost_and_renamed": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			w.gone[w.History("report")[0].Output("page")] = true
			c.report = "report_of_week_48"
			return c, Options{}
		},
		"output_declared_later": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			more := *bench
			more.Outputs = []string{"row", "requests"}
			c.benchKind = &more
			return c, Options{Targets: []string{chatA1}}
		},
		"scheme_changed": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			for _, r := range w.records {
				r.Manifest = strings.Replace(r.Manifest, `scheme i "1"`, `scheme i "0"`, 1)
				r.Key[0]++
			}
			w.memory = newMemory(w.records...)
			return c, Options{}
		},
		"another_result": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			again := *newest(w.History(chatA1))
			again.Outputs = []cache.Output{{Name: "row", Digest: key.Sum([]byte("another row"))}}
			w.put(again)
			return c, Options{}
		},
		"skipped": func(t *testing.T, w *world) (campaign, Options) {
			c := done(w, t)
			c.skip = "excluded by the user"
			return c, Options{}
		},
		"targets": func(t *testing.T, w *world) (campaign, Options) {
			return base(), Options{Targets: []string{"framework.b", chatA2}}
		},
		"replace": func(t *testing.T, w *world) (campaign, Options) {
			return done(w, t), Options{Replace: []string{chatA1, "winners"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c, o := tell(t, w)
			g := c.graph(t)
			p := mustMake(t, g, w, o)
			golden(t, name+".txt", p.Text(g))
			if p.Serial != w.Serial() {
				t.Errorf("serial %d, want %d", p.Serial, w.Serial())
			}
			downstream := 0
			for _, r := range p.Roots {
				downstream += 1 + r.Downstream
			}
			if downstream != p.Counts.Changes() {
				t.Errorf("roots and what follows are %d, nodes that may run %d", downstream, p.Counts.Changes())
			}
		})
	}
}

// A node that needs a skipped one never runs, and says what it needs.
func TestNeedingASkippedNode(t *testing.T) {
	c := base()
	decls := c.decls()
	for i := range decls {
		if decls[i].Addr == "check.a" {
			decls[i].Skip = "unsupported: no --help"
		}
	}
	g := mustBuild(t, decls, compile.Env{Binding: c.graph(t).Env.Binding})
	p := mustMake(t, g, newWorld(), Options{})
	golden(t, "needs_skipped.txt", p.Text(g))
}

func TestMakeProblems(t *testing.T) {
	c := base()
	c.skip = "excluded by the user"
	g := c.graph(t)
	for _, tc := range []struct {
		o    Options
		want []string
	}{
		{Options{Targets: []string{"framework.c"}, Replace: []string{"winner"}}, []string{
			"framework.c: is neither a node's address nor a block (did you mean framework.a?)",
			"winner: is neither a node's address nor a block (did you mean winners?)"}},
		{Options{Targets: []string{"help.a"}, Replace: []string{"winners"}}, []string{"winners: cannot be replaced: it is outside the targets"}},
		{Options{Replace: []string{"help.b"}}, []string{"help.b: cannot be replaced: it is skipped: excluded by the user"}},
	} {
		p, problems := Make(g, newWorld(), tc.o)
		var got []string
		for _, problem := range problems {
			got = append(got, problem.String())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || p != nil {
			t.Errorf("plan %v, problems (-want +got):\n%s", p, diff)
		}
	}
}

func TestDocument(t *testing.T) {
	w := newWorld()
	c := base()
	w.apply(c.graph(t))
	c.base, c.skip = 16, "excluded by the user"
	g := c.graph(t)
	b, err := json.MarshalIndent(mustMake(t, g, w, Options{}).Document(g), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "document.json", string(b)+"\n")
}

func TestExplain(t *testing.T) {
	w := newWorld()
	w.outcome[chatA1] = cache.Outcome{State: cache.Failed, Class: "timeout", Reason: "not healthy after 60 s"}
	c := base()
	w.apply(c.graph(t))
	delete(w.outcome, chatA1)
	w.apply(c.graph(t))
	c.base = 16
	w.outcome[chatA1] = cache.Outcome{State: cache.Failed, Class: "oom", Keep: true}
	w.apply(c.graph(t))
	c.base, c.report = 8, "report_of_week_48"
	g := c.graph(t)
	p := mustMake(t, g, w, Options{Replace: []string{"winners"}})
	var b strings.Builder
	for _, addr := range []string{chatA1, "winners", "report_of_week_48"} {
		id, _ := g.Lookup(addr)
		b.WriteString(Explain(g, p, w, id).Text() + "\n")
	}
	golden(t, "explain.txt", b.String())
	id, _ := g.Lookup(chatA1)
	doc, err := json.MarshalIndent(Explain(g, p, w, id).Document(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "explain.json", string(doc)+"\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("SOTABUILD_UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
