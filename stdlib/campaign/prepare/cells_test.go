package prepare_test

import (
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/campaign/repeats"
	"github.com/sotabuild/sotabuild/stdlib/profile"
)

// TestUnchangedKnowsEveryServer: whatever runs a cell's server is told when the
// server's program changed while it ran.
func TestUnchangedKnowsEveryServer(t *testing.T) {
	files, err := key.OpenFiles("")
	if err != nil {
		t.Fatal(err)
	}
	unchanged := prepare.Unchanged(files, nil)
	gone := campaign.BenchSpec{Software: key.Sum([]byte("program")), Life: campaign.Life{Host: campaign.Host{Program: "/not/here"}}}
	for _, spec := range []any{gone, repeats.Spec{Bench: gone}, profile.Spec{Server: gone}} {
		if unchanged(spec) == nil {
			t.Errorf("nothing is said of %T", spec)
		}
	}
}
