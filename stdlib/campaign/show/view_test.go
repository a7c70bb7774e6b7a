package show

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func facts(c *lang.Campaign) campaign.Facts {
	f := campaign.Facts{Software: map[string]campaign.Software{}, Weights: key.Sum([]byte("weights")), Helps: map[string]string{},
		Env: compile.Env{Binding: sample.Binding()}}
	for _, fw := range c.Frameworks {
		f.Software[fw.Label] = campaign.Software{Digest: key.Sum([]byte("program"))}
		f.Helps[fw.Label] = sample.Help
	}
	return f
}

// empty is a store in which nothing was ever run.
func empty(t *testing.T) cache.Reader {
	t.Helper()
	r, err := cache.OpenReader(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestViewSaysWhatIsNotMeasured: an empty store gives a view without rows that
// says so, and a skipped candidate has its row all the same.
func TestViewSaysWhatIsNotMeasured(t *testing.T) {
	c := sample.Load(t, strings.Replace(sample.Text, "space          = { max_num_seqs = [2] }", "space          = { max_num_sex = [2] }", 1))
	f := facts(c)
	d := campaign.Declare(c, f)
	g, problems := compile.Build(d.Decls, f.Env)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p := &prepare.Prepared{Outline: prepare.Outline{Graph: g}, Campaign: c, Facts: f, Declared: d}
	v, err := View(p, empty(t), "test", time.Unix(0, 0), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, s := range v.Scenarios {
		for _, cell := range s.Cells {
			rows++
			if cell.Row.Status != result.Skipped || len(cell.Row.Metrics) != 0 || strings.Contains(cell.Row.Reason, string(cell.Row.Class)) {
				t.Errorf("a row that was never measured: %+v", cell.Row)
			}
		}
	}
	if rows != 4 || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "16 cells") {
		t.Errorf("%d rows, notes %v; want the 4 skipped and a note of the other 16", rows, v.Notes)
	}
}

// TestViewShowsWhatCouldNotBeAsked: the cells of a program that prints no help
// have failed rows with the question's class and no number, whatever their
// number (R075).
func TestViewShowsWhatCouldNotBeAsked(t *testing.T) {
	c := sample.Load(t, sample.Text)
	f := facts(c)
	f.Software["slow"] = campaign.Software{Digest: key.Sum([]byte("garbage"))}
	d := campaign.Declare(c, f)
	g, problems := compile.Build(d.Decls, f.Env)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	store, err := cache.OpenLocal(filepath.Join(t.TempDir(), "store"), cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	id, _ := g.Lookup("help.slow.server")
	m, _ := g.Manifest(id, nil)
	_, err = store.Put(t.Context(), cache.Record{Key: m.Key(), Node: "help.slow.server", Kind: "help", Manifest: m.Text(),
		Outcome: cache.Outcome{State: cache.Failed, Class: "start_failed", Reason: "exec format error"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := View(&prepare.Prepared{Outline: prepare.Outline{Graph: g}, Campaign: c, Facts: f, Declared: d}, store, "test", time.Unix(0, 0), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, s := range v.Scenarios {
		for _, cell := range s.Cells {
			rows++
			r := cell.Row
			if cell.Framework != "slow" || r.Status != result.Failed || r.Class != "start_failed" || len(r.Metrics) != 0 || !strings.Contains(r.Reason, "exec format error") {
				t.Errorf("%s: row %s %s %q", cell.Framework, r.Status, r.Class, r.Reason)
			}
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
	if rows != 8 {
		t.Errorf("%d rows, want the 8 cells of the framework that cannot be asked", rows)
	}
}

// TestViewOfAnApply: with samples of an hour at most, what is two hours old is a
// result of the apply that took it, or that began while it was young enough.
func TestViewOfAnApply(t *testing.T) {
	c := sample.Load(t, sample.Text+"quality {\n  max_age = \"1h\"\n}\n")
	f := facts(c)
	d := campaign.Declare(c, f)
	g, problems := compile.Build(d.Decls, f.Env)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	store, err := cache.OpenLocal(filepath.Join(t.TempDir(), "store"), cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	taken := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	made := make([]cache.Record, len(g.Actions))
	for i := range g.Actions {
		a := &g.Actions[i]
		m, known := g.Manifest(a.ID, func(from graph.NodeID, output string) (key.Digest, bool) {
			d := made[from].Output(output)
			return d, !d.IsZero()
		})
		if !known || a.Skip != "" {
			t.Fatalf("%s cannot be made", a.Addr)
		}
		text := []byte(m.Key().String()) // the same of what is the same
		if spec, ok := a.Spec.(campaign.BenchSpec); ok {
			if text, err = json.Marshal(result.Row{Version: result.RowVersion, Status: result.OK, Workload: spec.Life.Workload}); err != nil {
				t.Fatal(err)
			}
		}
		digest, size, err := store.Object(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		made[i] = cache.Record{Key: m.Key(), Node: a.Addr, Kind: a.Kind.Name, Manifest: m.Text(), Outcome: cache.Outcome{State: cache.OK}, Time: cache.Span{Started: taken}}
		for _, name := range a.Kind.Outputs {
			made[i].Outputs = append(made[i].Outputs, cache.Output{Name: name, Digest: digest, Size: size})
		}
		slices.SortFunc(made[i].Outputs, func(a, b cache.Output) int { return strings.Compare(a.Name, b.Name) })
		if _, err := store.Put(t.Context(), made[i]); err != nil {
			t.Fatal(err)
		}
	}
	now := taken.Add(2 * time.Hour)
	for since, open := range map[time.Duration]int{0: 20, 30 * time.Minute: 20, 90 * time.Minute: 0, 4 * time.Hour: 0} {
		v, err := View(&prepare.Prepared{Outline: prepare.Outline{Graph: g}, Campaign: c, Facts: f, Declared: d}, store, "test", now.Add(-since), now)
		if err != nil {
			t.Fatal(err)
		}
		got, cells := 0, 0
		for _, s := range v.Scenarios {
			got += len(s.Open)
			for _, cell := range s.Cells {
				cells++
				if *cell.Cached != 2*time.Hour {
					t.Errorf("a sample of two hours ago is %v old", *cell.Cached)
				}
			}
		}
		if got != open || got+cells != 20 {
			t.Errorf("of an apply that began %v ago %d cells are open and %d are not, want %d of 20 open", since, got, cells, open)
		}
	}
}

// TestEveryFairnessFieldCanBeWaived: the report judges by the names that the
// language waives by.
func TestEveryFairnessFieldCanBeWaived(t *testing.T) {
	row := func(framework string) report.Cell {
		return report.Cell{Framework: framework, Row: &result.Row{Status: result.OK}}
	}
	fields := report.View{}.Fair(report.Scenario{Cells: []report.Cell{row("a"), row("b")}}, nil)
	text := ""
	for _, f := range fields {
		text += f.Field + " = \"hosted\"\n"
	}
	c := sample.Load(t, sample.Text+"fairness {\n  waive = {\n"+text+"}\n}\n")
	if len(fields) != 9 || len(c.Judge.Waived) != 9 {
		t.Errorf("%d fields judged and %d waived, want the nine of R127", len(fields), len(c.Judge.Waived))
	}
}
