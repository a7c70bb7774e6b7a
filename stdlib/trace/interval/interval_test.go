package interval_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sotabuild/sotabuild/stdlib/trace/interval"
)

type span = interval.Span

func TestUnionAndIntersect(t *testing.T) {
	a := []span{{5, 9}, {0, 3}, {2, 4}, {9, 10}, {7, 7}}
	if got := interval.Merge(a); !cmp.Equal(got, []span{{0, 4}, {5, 10}}) {
		t.Errorf("Merge = %v", got)
	}
	if got := interval.Union(a); got != 9 {
		t.Errorf("Union = %d, want 9", got)
	}
	if got := interval.Intersect([]span{{0, 4}, {5, 10}}, []span{{3, 6}, {9, 20}}); got != 3 {
		t.Errorf("Intersect = %d, want 3", got)
	}
}

// Drawn by hand:  lane 0: compute 0–10, and 8–12 beside it; lane 1: comm 6–20.
func TestHidden(t *testing.T) {
	got := interval.Hidden([]interval.Event{
		{Span: span{0, 10}, Lane: 0, Compute: true},
		{Span: span{8, 12}, Lane: 0, Compute: true},
		{Span: span{6, 20}, Lane: 1},
		{Span: span{30, 30}, Lane: 1},
	})
	want := []interval.Share{
		{Exclusive: 6, Hidden: 4, OtherLane: 4, ByCompute: 2},
		{Exclusive: 0, Hidden: 4, OtherLane: 4, ByCompute: 2},
		{Exclusive: 8, Hidden: 6, OtherLane: 6, ByCompute: 6},
		{},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Hidden must agree with looking at every nanosecond.
func TestHiddenAgainstCounting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		events := make([]interval.Event, 1+r.IntN(8))
		for i := range events {
			s := r.Int64N(40)
			events[i] = interval.Event{Span: span{s, s + r.Int64N(20)}, Lane: int32(r.IntN(3)), Compute: r.IntN(2) == 0}
		}
		want := make([]interval.Share, len(events))
		for at := int64(0); at < 64; at++ {
			for i, e := range events {
				if e.Start > at || at >= e.End {
					continue
				}
				others, apart, compute := 0, 0, 0
				for j, o := range events {
					if j == i || o.Start > at || at >= o.End {
						continue
					}
					others++
					if o.Lane != e.Lane {
						apart++
					}
					if o.Compute {
						compute++
					}
				}
				count(&want[i], others, apart, compute)
			}
		}
		if d := cmp.Diff(want, interval.Hidden(events)); d != "" {
			t.Fatalf("%+v\n%s", events, d)
		}
	}
}

func count(s *interval.Share, others, apart, compute int) {
	if others == 0 {
		s.Exclusive++
	} else {
		s.Hidden++
	}
	if apart > 0 {
		s.OtherLane++
	}
	if compute > 0 {
		s.ByCompute++
	}
}
