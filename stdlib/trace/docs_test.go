package trace_test

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace"
	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
)

// TestDocs: the rows that docs/traces.md shows are rows of the real reports.
// The page leaves columns out; … stands for what it shortens.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	decode := sample.Path(t, "h200/vllm_dense_decode.rank0.pt.trace.json.gz")
	real := must(t, trace.TriageOptions{Paths: []string{decode}}) +
		must(t, trace.TriageOptions{Paths: []string{sample.Path(t, "h200/sglang_dense_extend.TP-0-EXTEND.trace.json.gz")}}) +
		must(t, trace.TriageOptions{Paths: []string{sample.Path(t, "h200/moe_prefill.trace.json.gz")}})
	var layers bytes.Buffer
	if err := trace.Layers(context.Background(), trace.LayersOptions{Path: decode, Pass: -1}, &layers); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, line := range strings.Split(real+layers.String(), "\n") {
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, cells(line))
		}
	}
	checked, table := 0, ""
	for _, line := range strings.Split(string(page), "\n") {
		switch {
		case !strings.HasPrefix(line, "| "):
			if strings.HasPrefix(line, "Coverage of GPU time") && !strings.Contains(real, line) {
				t.Errorf("no report says\n%s", line)
			}
			table = ""
		case table == "":
			table = cells(line)[0]
		case strings.HasPrefix(line, "| ---"):
		case slices.Contains([]string{"Kernel", "Priority", "Pattern", "#"}, table):
			checked++
			if !slices.ContainsFunc(rows, func(row []string) bool { return shows(cells(line), row) }) {
				t.Errorf("no report has the row\n%s", line)
			}
		}
	}
	if checked < 7 {
		t.Errorf("%d rows were checked; the page has more", checked)
	}
}

func cells(line string) []string {
	list := strings.Split(strings.Trim(line, "| "), " | ")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// shows reports whether each cell of the page's row is one of the report's, in
// order.
func shows(short, row []string) bool {
	at := 0
	for _, c := range short {
		parts := strings.Split(c, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		want := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
		i := slices.IndexFunc(row[at:], want.MatchString)
		if i < 0 {
			return false
		}
		at += i + 1
	}
	return true
}
