package help

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRememberedTexts asks for more texts than are kept, twice.
func TestRememberedTexts(t *testing.T) {
	for range 2 {
		for i := range texts + 3 {
			text := fmt.Sprintf("options:\n  --flag-%d N  A number (default: %d)\n", i, i)
			want := parse(text)
			if len(want) != 1 {
				t.Fatalf("%d flags in %q", len(want), text)
			}
			if diff := cmp.Diff(want, Parse(text)); diff != "" {
				t.Fatalf("text %d: %s", i, diff)
			}
		}
	}
}
