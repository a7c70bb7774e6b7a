package profile

import (
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/key/keytest"
	"github.com/sotabuild/sotabuild/stdlib/ncu"
)

// TestEachFieldReachesTheKey: whatever is keyed of a profile or of a comparison
// of kernels changes the key, and paths and notes do not.
func TestEachFieldReachesTheKey(t *testing.T) {
	harness := Harness{Argv: []string{"/bin/h", "--n", "1"}, Files: key.Sum([]byte("h")), Env: map[string]string{"A": "1"}, Kernel: "k", Shape: "s", Commit: "c", File: "f"}
	for name, spec := range map[string]any{
		"profile":  Spec{Stage: Decode, Args: []string{"a", "b"}, Armed: map[string]string{"X": "1"}, Start: Call{Path: "/start", Body: "{}"}},
		"imported": ImportSpec{Stage: Decode, Role: Formal, Files: []File{{Path: "/a", Name: "a", Digest: key.Sum([]byte("a"))}, {Name: "b", Digest: key.Sum([]byte("b"))}}},
		"ncu":      NCUSpec{Baseline: harness, Candidate: harness, Subject: ncu.Subject{Round: 3}, Refuted: []string{"x", "y"}},
	} {
		if n := keytest.EachField(t, spec, nil); n < 9 {
			t.Errorf("%s: %d changes: the walk is broken", name, n)
		}
	}
}
