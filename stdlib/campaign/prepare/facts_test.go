package prepare

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

func TestRememberAndRecall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store", "facts")
	of := key.Sum([]byte("campaign"))
	want := campaign.Facts{
		Software: map[string]campaign.Software{"a": {Digest: key.Sum([]byte("a"))}, "b": {Image: key.Sum([]byte("b")), Place: campaign.Place{Executor: "docker", Image: "b:1", Program: "serve", Env: []string{"A=b"}}}},
		Weights:  key.Sum([]byte("w")), Tokenizer: key.Sum([]byte("t")), Datasets: map[string]key.Digest{"d": key.Sum([]byte("d")), "\xff": key.Sum([]byte("ff")), "\xfe": key.Sum([]byte("fe"))}, Graded: key.Sum([]byte("g")), Hardware: result.Hardware{CPU: "EPYC", Cores: 2},
		Cards: []string{"GPU-1c"},
		Self:  "/bin/sotabuild",
	}
	want.Env.Binding = []key.Fact{{Name: "env.cores", Type: key.Int, Value: "2"}, {Name: "env.cpu", Type: key.Text, Value: "EPYC"}}
	want.Env.Recorded = []cache.Observed{{Name: "env.kernel", Value: "6.1"}}
	if _, _, ok, err := Recall(path, of, want.Self); ok || err != nil {
		t.Errorf("facts recalled before any were remembered: %v", err)
	}
	written, err := Remember(path, of, want)
	if err != nil {
		t.Fatal(err)
	}
	got, read, ok, err := Recall(path, of, want.Self)
	if err != nil || !ok || read != written {
		t.Fatalf("recalling %s, which were %s: %v, %v", read, written, ok, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, _, ok, _ := Recall(path, key.Sum([]byte("other")), want.Self); ok {
		t.Error("the facts of another campaign were recalled")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, ok, err := Recall(path, of, want.Self); ok || err != nil {
		t.Errorf("a damaged file: %v, %v; want no facts and no error", ok, err)
	}
}

// A new fact cannot be forgotten: a plan with --refresh=false would miss it.
func TestEveryFactIsRemembered(t *testing.T) {
	known := []string{"Software", "Weights", "Tokenizer", "Datasets", "Graded", "Env", "Hardware", "Cards"}
	notFacts := []string{"Helps", "Self", "Revision", "Hub"} // the store's, where this program lies, and what is read each time
	// Of these a compiled form is bound to Helps by the answers and to Revision by
	// its Origin. Self and Hub are for what runs, which it does not keep.
	for f := range reflect.TypeFor[campaign.Facts]().Fields() {
		if !slices.Contains(known, f.Name) && !slices.Contains(notFacts, f.Name) {
			t.Errorf("field %s is neither remembered nor named here as no fact", f.Name)
		}
	}
}
