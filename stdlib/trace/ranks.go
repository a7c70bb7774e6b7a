package trace

import (
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/trace/show"
	"github.com/sotabuild/sotabuild/stdlib/trace/triage"
)

// RankRow compares one rank with the others of its run. A collective ends on
// all ranks at about the same time, so the shortest of the matching kernels is
// the transfer and what others take longer is waiting for the last rank.
type RankRow struct {
	Framework string `json:"framework"`
	Rank      int    `json:"rank"`
	Path      string `json:"path"`
	Sum       int64  `json:"sum_ns"`
	Comm      int64  `json:"communication_ns"` // union, all stages
	Hidden    int64  `json:"hidden_by_compute_ns"`
	Matched   int    `json:"matched_collectives"`
	Matching  int64  `json:"matched_ns"`
	Transfer  int64  `json:"transfer_ns"` // sum of the shortest of each match
	Waiting   int64  `json:"waiting_ns"`  // matched − transfer: skew of the ranks
}

// compareRanks makes a row for each report that has sister ranks.
func compareRanks(list []triage.Report) []RankRow {
	var out []RankRow
	for i, r := range list {
		var sisters []triage.Report
		for j, o := range list {
			if sameRun(r, o) && r.Rank >= 0 && (j == i || o.Rank >= 0 && o.Rank != r.Rank) {
				sisters = append(sisters, o)
			}
		}
		if len(sisters) > 1 {
			out = append(out, rankRow(r, sisters))
		}
	}
	slices.SortStableFunc(out, func(a, b RankRow) int { return a.Rank - b.Rank })
	return out
}

func rankRow(r triage.Report, sisters []triage.Report) RankRow {
	row := RankRow{Framework: r.Framework, Rank: r.Rank, Path: r.Input.Path}
	for _, s := range r.Stages {
		row.Sum += s.Times.Sum
		row.Comm += s.Comm.Time
		row.Hidden += s.Comm.Hidden
	}
	shortest, ranks := map[string]int64{}, map[string]int{}
	for _, s := range sisters {
		for _, c := range s.Calls {
			if ranks[c.Key] == 0 || c.Dur < shortest[c.Key] {
				shortest[c.Key] = c.Dur
			}
			ranks[c.Key]++
		}
	}
	for _, c := range r.Calls {
		if ranks[c.Key] != len(sisters) {
			continue
		}
		row.Matched++
		row.Matching += c.Dur
		row.Transfer += shortest[c.Key]
	}
	row.Waiting = row.Matching - row.Transfer
	return row
}

func rankTable(rows []RankRow) show.Table {
	t := show.Table{
		Title: "Ranks",
		Head: []string{"Framework", "Rank", "GPU time", "Communication", "Hidden by compute", "Matched collectives",
			"Matched time", "Transfer", "Waiting for other ranks"},
		Notes: []string{"Collectives are matched by group and sequence number, or by name and order. Transfer is the shortest of each match; the rest is waiting."},
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, []any{r.Framework, r.Rank, show.Micros(r.Sum), show.Micros(r.Comm), show.Micros(r.Hidden), r.Matched,
			show.Micros(r.Matching), show.Micros(r.Transfer), show.Micros(r.Waiting)})
	}
	return t
}
