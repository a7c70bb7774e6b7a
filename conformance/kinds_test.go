package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/repeats"
	"github.com/sotabuild/sotabuild/stdlib/profile"
)

// ran is where the kinds of nodes that are tasks have run for real, under tests
// of this package. A kind that is not here has run nowhere.
var ran = map[string][]string{
	"help":      {"local", "docker", "oci", "slurm"}, // TestCampaignInContainers
	"version":   {"local", "docker", "oci", "slurm"},
	"bench":     {"local", "docker", "oci", "slurm"},
	"repeat":    {"local"}, // TestRepeatsUntilStable
	"profile":   {"local"}, // TestProfile…
	"calibrate": {"local"}, // TestProductionWorkload
}

// TestKindsOfNodesByExecutor keeps the table of docs/executors.md what the table
// of kinds and ran say. SOTABUILD_UPDATE=1 rewrites it.
func TestKindsOfNodesByExecutor(t *testing.T) {
	columns := []string{"local", "docker", "oci", "slurm"}
	var b strings.Builder
	fmt.Fprintf(&b, "| node | %s |\n| --- |%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)))
	known := map[string]bool{}
	for _, k := range append(campaign.Kinds(), repeats.Kind, profile.Kind, profile.NCUKind) {
		known[k.Name] = true
		fmt.Fprintf(&b, "| %s |", k.Name)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", place(k, c))
		}
		b.WriteString("\n")
	}
	for name := range ran {
		if !known[name] {
			t.Errorf("ran has %q, which is no kind of node", name)
		}
	}
	head, table, tail := part(t, executorsPage, "kinds")
	if table == b.String() {
		return
	}
	if os.Getenv("SOTABUILD_UPDATE") == "" {
		t.Fatalf("%s (-documented +kinds):\n%s", executorsPage, cmp.Diff(table, b.String()))
	}
	if err := os.WriteFile(executorsPage, []byte(head+b.String()+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

func place(k *compile.Kind, executor string) string {
	if k.Func != nil {
		return "*host*"
	}
	for _, r := range ran[k.Name] {
		if r == executor {
			return "✓"
		}
	}
	return "–"
}
