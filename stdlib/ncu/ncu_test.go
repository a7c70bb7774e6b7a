package ncu_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/ncu"
)

func TestTmp(t *testing.T) {
	for _, k := range []string{"raw", "details"} {
		f := []string{"testdata/h200/rmsnorm_" + k + ".csv"}
		d, err := ncu.Make(context.Background(), ncu.Options{
			Baseline: ncu.Source{Pages: f, Kernel: "rmsnorm_v0"}, Candidate: ncu.Source{Pages: f, Kernel: "rmsnorm_v1"}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(d.Markdown())
		dir, err := ncu.Write(t.TempDir(), "v001", d)
		fmt.Println(dir, err)
	}
}
