package page_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

func read(t *testing.T, name string) page.Report {
	t.Helper()
	f, err := os.Open(filepath.Join("../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := page.Read(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// TestDetailsAgreeWithRaw holds the table of display names and both pages'
// units against each other: ncu printed the same report twice, once scaled and
// rounded, once in full.
func TestDetailsAgreeWithRaw(t *testing.T) {
	for _, dir := range []struct {
		details, raw string
		compared     int
	}{
		{"h200/rmsnorm_details.csv", "h200/rmsnorm_raw.csv", 4 * 50},
		{"ladder/details.csv.gz", "ladder/raw.csv.gz", 6 * 50},
		{"imported/details.csv.gz", "imported/raw.csv.gz", 50},
	} {
		d, r := read(t, dir.details), read(t, dir.raw)
		if len(d.Launches) != len(r.Launches) {
			t.Fatalf("%d launches on the details page, %d on the raw page", len(d.Launches), len(r.Launches))
		}
		n := 0
		for i, l := range d.Launches {
			raw := r.Launches[i]
			if l.Kernel != raw.Kernel || l.Grid != raw.Grid || l.Block != raw.Block {
				t.Errorf("launch %d is %s %v on one page and %s %v on the other", i, l.Kernel, l.Grid, raw.Kernel, raw.Grid)
			}
			for name, m := range l.Metrics {
				if strings.Contains(name, "/") { // not in the table of names
					continue
				}
				x, ok := raw.Metrics[name]
				if !ok {
					t.Errorf("%s: %s is on no raw page", dir.raw, name)
					continue
				}
				n++
				if tol := digit(m) + digit(x); m.Unit != x.Unit || math.Abs(m.Value-x.Value) > tol {
					t.Errorf("%s launch %d: %s is %v %s on the details page and %v %s on the raw page", dir.raw, i, name, m.Value, m.Unit, x.Value, x.Unit)
				}
			}
		}
		if n < dir.compared {
			t.Errorf("%s: only %d values compared", dir.raw, n)
		}
	}
}

// digit is half a unit of the last printed place of a value, in base units.
func digit(m page.Metric) float64 {
	text := strings.ReplaceAll(m.Text, ",", "")
	_, frac, _ := strings.Cut(text, ".")
	shown := math.Pow10(-len(frac))
	if m.Value == 0 {
		return shown / 2 * 1.001
	}
	var printed float64
	for _, c := range strings.ReplaceAll(text, ".", "") {
		if c >= '0' && c <= '9' {
			printed = printed*10 + float64(c-'0')
		}
	}
	return math.Abs(m.Value) / printed / 2 * 1.001
}
