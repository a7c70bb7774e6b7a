package plan

import (
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache/samples"
)

// A kind's own rule decides at plan time and changes no key.
func TestAcceptance(t *testing.T) {
	w := newWorld()
	c := base()
	w.apply(c.graph(t))
	plain := mustMake(t, c.graph(t), w, Options{})
	judged := *bench
	rule := samples.Rule{MaxAge: time.Hour}
	judged.Accept = func(any) samples.Rule { return rule }
	c.benchKind = &judged
	taken := w.History(chatA1)[0].Time.Started
	for _, tc := range []struct {
		name    string
		now     time.Time
		samples int
		want    Verdict
		why     string
	}{
		{"young", taken.Add(time.Hour), 1, Cached, ""},
		{"old", taken.Add(time.Hour + 1), 1, Stale, "needs 1 more sample; 1 older than 1h0m0s"},
		{"too_few", taken, 3, Stale, "needs 2 more samples"},
	} {
		rule.Samples = tc.samples
		g := c.graph(t)
		id, _ := g.Lookup(chatA1)
		p := mustMake(t, g, w, Options{Now: tc.now})
		n := p.Nodes[id]
		if n.Verdict != tc.want || tc.why != "" && p.Why(g, id) != tc.why {
			t.Errorf("%s: %c %q, want %c %q", tc.name, n.Verdict, p.Why(g, id), tc.want, tc.why)
		}
		if n.Key != plain.Nodes[id].Key {
			t.Errorf("%s: the judgement changed the key", tc.name)
		}
		if tc.want == Stale && (n.Reason.Cause != CauseRejected || p.Estimate.Known == 0) {
			t.Errorf("%s: cause %q, estimate %v", tc.name, n.Reason.Cause, p.Estimate)
		}
	}
}
