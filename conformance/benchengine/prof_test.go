package main

import (
	"io"
	"testing"
)

func BenchmarkPlan(b *testing.B) {
	for range b.N {
		if err := (site{"/tmp/s100000", "flat", 100000}).plan(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
