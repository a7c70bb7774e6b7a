package trace_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/trace"
	"github.com/sotabuild/sotabuild/stdlib/trace/internal/sample"
)

// Whatever a file holds, each command ends with a report or an error.
func FuzzCommands(f *testing.F) {
	layer := []sample.Kernel{}
	at := int64(10_000)
	for range 6 {
		for _, name := range []string{"rms_norm_kernel", "nvjet_a", "flash_fwd_kernel", "nvjet_b", "silu_kernel"} {
			layer = append(layer, sample.Kernel{Name: name, Start: at, Dur: 1000, Op: "aten::mm", Dims: "[[1,2],[2,3]]", Types: `["float","float"]`, Graph: name == "nvjet_b"})
			at += 1500
		}
	}
	f.Add([]byte(sample.Text(f, []sample.Step{{Name: "step[DECODE bs=4]", Start: 1, End: at}}, layer)))
	f.Add([]byte(sample.Text(f, nil, layer)))
	for _, name := range []string{"triton_cuLaunchKernel", "old_kineto_Kernel_Runtime_cats", "cuda_sync_multi_stream"} {
		b, err := os.ReadFile(edge + name + ".json.gz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "t.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		var out bytes.Buffer
		err := trace.Triage(ctx, trace.TriageOptions{Paths: []string{path}, Cutoff: 0.01}, &out)
		if (err == nil) != (out.Len() > 0) {
			t.Errorf("error %v with %d bytes of report", err, out.Len())
		}
		// What can be printed for people can be printed for programs.
		if err == nil {
			if err := trace.Triage(ctx, trace.TriageOptions{Paths: []string{path}, Format: trace.JSON}, &out); err != nil {
				t.Errorf("as JSON: %v", err)
			}
		}
		out.Reset()
		err = trace.Layers(ctx, trace.LayersOptions{Path: path, Pass: -1, Format: trace.JSON}, &out)
		if (err == nil) != (out.Len() > 0) {
			t.Errorf("layers: error %v with %d bytes of report", err, out.Len())
		}
	})
}
