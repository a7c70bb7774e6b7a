package conformance

import (
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/executors/kind"
	"github.com/sotabuild/sotabuild/lang"
)

// TestKindsOfExecutors: every kind of the language but auto, which chooses one
// of the others, and kubernetes, which comes later, can be made, and a kind that
// checks its options itself knows those of the language.
func TestKindsOfExecutors(t *testing.T) {
	var made []string
	for _, k := range kind.Kinds {
		made = append(made, k.Name)
	}
	var words []string
	for _, k := range lang.ExecutorKinds {
		if k.Name != "auto" && k.Name != "kubernetes" {
			words = append(words, k.Name)
		}
		if k.Container != (k.Name != "local" && k.Name != "slurm") {
			t.Errorf("%s: container = %t", k.Name, k.Container)
		}
	}
	if strings.Join(made, " ") != strings.Join(words, " ") {
		t.Errorf("the language has %v, and %v can be made", words, made)
	}
	slurm, _ := kind.Named(kind.Kinds, "slurm")
	known, _ := lang.ExecutorKindNamed("slurm")
	_, err := slurm.New(kind.Setup{Self: "/bin/true", Options: map[string]string{"no_such_option": "x"}})
	if err == nil {
		t.Fatal("slurm takes any option")
	}
	for _, o := range known.Options {
		if !strings.Contains(err.Error(), o.Name) {
			t.Errorf("slurm has no option %s: %v", o.Name, err)
		}
	}
	if n := strings.Count(err.Error(), ","); n != len(known.Options)-1 {
		t.Errorf("slurm lists %d options, the language %d", n+1, len(known.Options))
	}
}
