package oci

import (
	"context"
	"testing"

	"github.com/sotabuild/sotabuild/executors"
)

// TestCrun runs the same by crun where crun works here, and says why where it
// does not.
func TestCrun(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Runtime = "crun" })
	if err := r.Probe(context.Background()); err != nil {
		t.Skipf("crun does not work here: %v", err)
	}
	for name, c := range map[string]struct {
		task executors.Task
		want executors.Outcome
	}{
		"seven":   {r.sh("exit 7"), executors.Outcome{Reason: executors.Exited, Code: 7}},
		"missing": {r.task("/no/such"), executors.Outcome{Reason: executors.NotStarted}},
		"leaves":  {r.sh("setsid sleep 1000 & exit 3"), executors.Outcome{Reason: executors.Exited, Code: 3}},
	} {
		if out := r.wait(r.start(c.task)); out.Reason != c.want.Reason || out.Code != c.want.Code {
			t.Errorf("%s: %+v", name, out)
		}
	}
}
