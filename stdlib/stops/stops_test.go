package stops_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/stops"
)

func load(t *testing.T) []lang.Stop {
	t.Helper()
	list, diags := lang.Stops(stops.Name, stops.HCL)
	if len(diags) > 0 {
		t.Fatal(diags.Text(false))
	}
	return list
}

func TestPrescribedPredicates(t *testing.T) {
	var got []string
	for _, s := range load(t) {
		got = append(got, s.Name)
	}
	if names := strings.Join(got, " "); names != "reached tied external near_limit" { // R196, R197, R198, R199
		t.Errorf("the predicates are %s", names)
	}
	if text, diags := lang.Format(stops.Name, stops.HCL); string(text) != string(stops.HCL) {
		t.Errorf("not formatted (%v):\n%s", diags, text)
	}
}

// TestWhatEndsALoop is R195 to R199 with the positive and negative fixtures
// that the rules name.
func TestWhatEndsALoop(t *testing.T) {
	list := load(t)
	base := map[string]any{
		"round.smoke": false, "round.fair": true, "round.stable": true, "round.sla_ok": true, "round.near_limit": false,
		"round.worst_gap": 0.05, "round.best_gap": 0.02, "round.threshold": 0.01, "round.blockers": 0, "round.open_rows": 2,
	}
	for _, tt := range []struct {
		name string
		set  map[string]any
		want string
	}{
		{"behind", nil, ""},
		{"ahead everywhere", map[string]any{"round.worst_gap": -0.02, "round.best_gap": -0.1}, "reached"},
		{"one ahead and one tied", map[string]any{"round.worst_gap": 0.01, "round.best_gap": -0.1}, "reached"},
		{"one ahead and one behind", map[string]any{"round.worst_gap": 0.011, "round.best_gap": -0.1}, ""},
		{"within the noise", map[string]any{"round.worst_gap": 0.01, "round.best_gap": -0.01}, "tied"},
		{"within the noise once", map[string]any{"round.worst_gap": 0.0, "round.best_gap": 0.0, "round.stable": false}, ""},
		{"ahead but over the SLA", map[string]any{"round.worst_gap": -0.1, "round.best_gap": -0.1, "round.sla_ok": false}, ""},
		{"ahead but unfair", map[string]any{"round.worst_gap": -0.1, "round.best_gap": -0.1, "round.fair": false}, ""},
		{"ahead in a flow check", map[string]any{"round.worst_gap": -0.1, "round.best_gap": -0.1, "round.smoke": true}, ""},
		{"proven external", map[string]any{"round.blockers": 1, "round.open_rows": 0}, "external"},
		{"a blocker beside an open row", map[string]any{"round.blockers": 1, "round.open_rows": 1}, ""},
		{"near the limits", map[string]any{"round.near_limit": true, "round.open_rows": 0}, "near_limit"},
		{"near the limits with an idea left", map[string]any{"round.near_limit": true}, ""},
	} {
		facts := maps.Clone(base)
		maps.Copy(facts, tt.set)
		got := ""
		for _, s := range list {
			holds, seen, err := s.When.Eval(facts)
			if err != nil {
				t.Fatalf("%s: %s: %v", tt.name, s.Name, err)
			}
			if seen == "" {
				t.Errorf("%s: %s says nothing of what it saw", tt.name, s.Name)
			}
			if holds {
				got = s.Name
				if s.Reached != (s.Name == "reached" || s.Name == "tied") {
					t.Errorf("%s has reached = %t", s.Name, s.Reached)
				}
				break
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q ends the loop, want %q", tt.name, got, tt.want)
		}
	}
}

func TestMissingFactIsAnError(t *testing.T) {
	for _, s := range load(t) {
		if holds, _, err := s.When.Eval(map[string]any{}); err == nil || holds {
			t.Errorf("%s without facts is %t, %v", s.Name, holds, err)
		}
	}
}
