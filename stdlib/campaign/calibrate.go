package campaign

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/bench/calibrate"
)

// ClientAddr is the address of the node that calibrates the load generator
// before the first server starts. A flow check has none: its numbers decide
// nothing.
const ClientAddr = "calibrate.client"

// ClientSpec is what is calibrated: this client, whose form is the kind's
// version.
type ClientSpec struct {
	Host Host `key:"-"`
}

// ClientKind is measured: what this machine's client could stamp.
var ClientKind = &compile.Kind{
	Name: "calibrate", Version: 1, Purity: compile.Measured, Outputs: []string{"calibration"},
	Task: clientTask, Collect: collectClient, Policy: policy,
	Accept: func(any) samples.Rule { return samples.Rule{MaxAge: 7 * 24 * time.Hour} },
}

const (
	clientTimeout = 5 * time.Minute
	clientStep    = time.Second // of each load
	clientResult  = "calibration.json"
)

// ClientCalibration declares the node; nil for a flow check. It stands alone, so
// that its record can be looked up before the campaign is compiled.
func ClientCalibration(c *lang.Campaign, f Facts) []compile.Decl {
	frameworks := Compared(c)
	if c.Smoke || len(frameworks) == 0 {
		return nil
	}
	target := frameworks[0]
	return []compile.Decl{{
		Addr: ClientAddr, Kind: ClientKind, Block: block(target),
		Spec:      ClientSpec{Host: hostOf(c, f, target)},
		Resources: compile.Resources{Quiet: true}, Timeout: clientTimeout,
	}}
}

func clientTask(jobs []compile.Job, dir string) (executors.Task, error) {
	s := jobs[0].Spec.(ClientSpec)
	spec := runner.Spec{Version: runner.SpecVersion, Steps: []runner.Step{{
		ID: sched.StepID(jobs[0].Key), Argv: []string{s.Host.Self, "bench", "calibrate", "--step", clientStep.String(), "--out", "{step}/" + clientResult},
		Env: Environment(nil), Deadline: clientTimeout, Outputs: []string{clientResult},
	}}}
	return NewTask(spec, dir, s.Host)
}

func collectClient(_ compile.Job, step compile.StepResult) compile.Result {
	if step.Class != "" {
		return compile.Result{Outcome: failure(executors.Class(step.Class), step.Reason)}
	}
	return compile.Result{Outcome: cache.Outcome{State: cache.OK},
		Outputs: []compile.Value{{Name: "calibration", File: filepath.Join(step.Dir, clientResult)}}}
}

// goodFact is up to how many events a second the stamps are good to 1 ms.
const goodFact = "client.good_events_per_s"

// Calibrated are a calibration's numbers as facts that are recorded with every
// measurement, and keyed in none.
func Calibrated(b []byte) ([]cache.Observed, error) {
	var r calibrate.Result
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("reading calibration: %w", err)
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	out := []cache.Observed{
		{Name: "client.calibrated", Value: r.When.UTC().Format(time.RFC3339)},
		{Name: goodFact, Value: number(r.Good)},
		{Name: "client.events_per_s_per_core", Value: number(r.PerCore)},
		{Name: "client.cpu_share_at_good", Value: number(r.Stolen)},
	}
	for _, p := range r.Points {
		name := fmt.Sprintf("client.at_%.0f_events_per_s", p.Offered)
		if p.Class != "" {
			out = append(out, cache.Observed{Name: name, Value: fmt.Sprintf("no number: %s: %s", p.Class, p.Reason)})
			continue
		}
		out = append(out, cache.Observed{Name: name, Value: fmt.Sprintf("read error p50 %.3f ms, p99 %.3f ms; send lag p99 %.3f ms", p.ReadP50*1e3, p.ReadP99*1e3, p.SendP99*1e3)})
	}
	return out, nil
}

// GoodLoad reads up to how many events a second the client's stamps are good to
// 1 ms; not ok where it was not calibrated.
func GoodLoad(recorded []cache.Observed) (float64, bool) {
	for _, o := range recorded {
		if o.Name == goodFact {
			v, err := strconv.ParseFloat(o.Value, 64)
			return v, err == nil
		}
	}
	return 0, false
}
