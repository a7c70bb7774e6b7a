package report

import (
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// TestOpenCellsLeaveNoWinner: with one concurrency whole and one not, the gap of
// the whole one stands, and nobody wins the scenario.
func TestOpenCellsLeaveNoWinner(t *testing.T) {
	a := key.Sum([]byte("a"))
	share, one, two, first := 0.25, 1, 2, 0
	row := &result.Row{Workload: result.Workload{Concurrency: &one}}
	s := Scenario{Name: "chat", Cells: []Cell{{Framework: "vllm", Candidate: "baseline", Digest: a, Row: row}},
		Open: []Open{{"vllm", "baseline", "2", Stale, ""}, {"sglang", "baseline", "2", Stale, ""}, {"sglang", "x=1", "2", Stale, ""}, {"sglang", "x=2", "2", Never, ""}}}
	gap := winners.Gap{Share: &share}
	s.Ranking = winners.Ranking{Best: []key.Digest{a}, Cell: &first, Gap: gap,
		Cells: []winners.Contest{{Workload: result.Workload{Concurrency: &one}, Gap: gap}, {Workload: result.Workload{Concurrency: &two}, Gap: gap}}}
	got := s.Settled("vllm")
	if r := got.Ranking; r.Best != nil || r.Cell != nil || r.Share != nil || r.Cells[0].Share == nil || r.Cells[1].Share != nil || s.Ranking.Cells[1].Share == nil {
		t.Errorf("%+v", r)
	}
	want := "no winner yet: 4 of 5 cells to be measured (vllm: 1 stale, sglang: 2 stale, sglang: 1 not measured); ahead so far: vllm (baseline, concurrency 1)"
	if text := (View{}).Winner(got); text != want {
		t.Errorf("%q, want %q", text, want)
	}
	for state, want := range map[OpenState]string{Never: "nothing is measured yet", Stale: "no winner yet: 1 of 1 cell to be measured (vllm: 1 stale)"} {
		s := Scenario{Open: []Open{{"vllm", "baseline", "2", state, ""}}}
		if text := (View{}).Winner(s.Settled("vllm")); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// TestRequestsAreCounted: of a row whose requests were all cut off none succeeded;
// only a row that sent none has no count.
func TestRequestsAreCounted(t *testing.T) {
	for want, q := range map[string]result.Requests{"3 of 4": {OK: 3, Failed: 1}, "0 of 4": {CutOff: 4}, missing: {}} {
		if got := requests(&result.Row{Requests: q, Workload: result.Workload{NumPrompts: 4}}); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
}
