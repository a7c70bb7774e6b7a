package read_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// BenchmarkRead measures the largest recorded trace, gunzip included, per
// second of CPU time of the whole process: wall time would credit idle cores.
func BenchmarkRead(b *testing.B) {
	data, err := os.ReadFile(sample.Path(b, "traces/xdit_flux_hipgraph_63MB.json.gz"))
	if err != nil {
		b.Fatal(err)
	}
	var raw int64
	start := cpu(b)
	for b.Loop() {
		t, err := read.Read(bytes.NewReader(data), "t13")
		if err != nil {
			b.Fatal(err)
		}
		raw += t.Meta.Raw
	}
	b.ReportMetric(float64(raw)/1e6/(cpu(b)-start).Seconds(), "MB/CPU-s")
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
