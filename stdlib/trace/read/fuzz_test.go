package read_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Whatever the bytes are, reading ends with a trace or an error, and a trace
// holds no more records than events.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		object(kern, kern), "[" + kern, `{"traceEvents":[{"ph":"X","cat":"Kernel","name":"`, `{"a":"]","traceEvents":[]}`,
		`[{"ph":"M"},{"ph":"X","cat":"cpu_op","args":{"Input Dims":[[1]]},"ts":1e3,"dur":"2"}]`, "\x1f\x8b\x08", `{"traceEvents":[{},{,},"x"]}`,
	} {
		f.Add([]byte(s))
	}
	for _, name := range []string{"triton_cuLaunchKernel", "old_kineto_Kernel_Runtime_cats"} {
		b, err := os.ReadFile("testdata/edge/" + name + ".json.gz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := read.Read(bytes.NewReader(data), "f")
		if err != nil {
			return
		}
		kept := len(tr.GPU) + len(tr.Calls) + len(tr.Ops) + len(tr.Notes) + len(tr.GPUNotes) + tr.Frames.Len()
		if kept > tr.Counts.Events {
			t.Errorf("%d records of %d events", kept, tr.Counts.Events)
		}
		for i, g := range tr.GPU {
			if g.Dur < 0 || i > 0 && g.Start < tr.GPU[i-1].Start {
				t.Errorf("GPU event %d is out of order or negative: %+v", i, g)
			}
		}
	})
}
