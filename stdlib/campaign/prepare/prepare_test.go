package prepare

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
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

// TestHelpIsAskedBeforeItIsKnown: without a snapshot nothing is skipped, and
// the help nodes are what apply has to run first.
func TestHelpIsAskedBeforeItIsKnown(t *testing.T) {
	c := sample.Load(t, strings.Replace(sample.Text, "space          = { max_num_seqs = [2] }", "space          = { max_num_sex = [2] }", 1))
	f := facts(c)
	f.Helps = map[string]string{}
	d := campaign.Declare(c, f)
	for _, cell := range d.Cells {
		if cell.Skip != "" {
			t.Errorf("%s is skipped although nothing is known", cell.Addr)
		}
	}
	p, diags := From(c, f, empty(t), time.Now())
	if diags.HasErrors() || !slices.Equal(p.Unasked, []string{"help.fast.server", "help.slow.server"}) {
		t.Errorf("unasked %v, %v", p.Unasked, diags)
	}
}

// TestRunnableNamesEveryPartThatIsMissing: all at once, each with what to write
// instead.
func TestRunnableNamesEveryPartThatIsMissing(t *testing.T) {
	c := sample.Load(t, sample.Text)
	if err := Runnable(c); err != nil {
		t.Fatalf("the test campaign: %v", err)
	}
	c.Run.Executor = lang.Executor{Type: "kubernetes"}
	c.Frameworks[1].URL = []string{"http://localhost:8000"}
	c.Run.Loop = &lang.Loop{Type: "rlcr"}
	c.Run.Cache.Remote = "oci://x/y"
	err := Runnable(c)
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, want := range []string{"kubernetes", "running url", "rlcr", "remote store"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in\n%v", want, err)
		}
	}
}
