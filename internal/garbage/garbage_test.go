package garbage

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestFirstIsLateAndOnce: nothing is collected below 64 MB, and after the first
// collection the heap grows as before.
func TestFirstIsLateAndOnce(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumGC
	}
	Spare()
	was := collections()
	for range 40 { // 40 MB, and what the test's own program holds
		kept = make([]byte, 1<<20)
	}
	if n := collections() - was; n != 0 {
		t.Errorf("%d collections within 40 MB, want none", n)
	}
	for percent := first; percent != growth; {
		runtime.GC() // ends after the cleanup was queued; it runs beside us
		runtime.Gosched()
		percent = debug.SetGCPercent(growth)
		if percent != growth && percent != first {
			t.Fatalf("the heap may grow by %d percent", percent)
		}
		if percent == first {
			debug.SetGCPercent(first)
		}
	}
}

var kept []byte
