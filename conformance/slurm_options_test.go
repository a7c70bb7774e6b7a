package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/executors/slurm"
	"github.com/sotabuild/sotabuild/lang"
)

// TestSlurmOptions: the language and the executor know the same options, in the
// same order.
func TestSlurmOptions(t *testing.T) {
	_, err := slurm.New(slurm.Config{Options: map[string]string{"no such": ""}})
	if err == nil {
		t.Fatal("an unknown option was accepted")
	}
	_, list, _ := strings.Cut(err.Error(), "there are ")
	kind, ok := lang.ExecutorKindNamed("slurm")
	if !ok {
		t.Fatal("the language has no executor slurm")
	}
	var names []string
	for _, o := range kind.Options {
		names = append(names, o.Name)
	}
	if got := strings.Split(list, ", "); !slices.Equal(got, names) {
		t.Errorf("the executor has %q, the language %q", got, names)
	}
}
