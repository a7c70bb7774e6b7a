package repeats

import (
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/key/keytest"
)

// TestEachFieldReachesTheKey: whatever is keyed of a repeat changes its key.
func TestEachFieldReachesTheKey(t *testing.T) {
	if n := keytest.EachField(t, Spec{Number: 1, Among: key.Sum([]byte("sides"))}, nil); n < 20 {
		t.Errorf("%d changes: the walk is broken", n)
	}
}
