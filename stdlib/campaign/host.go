package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/probe"
)

// HostAddr is the address of the node that looks at the host before the first
// server starts; a campaign without GPUs has none.
const HostAddr = "probe.host"

// HostSpec is what is looked at: the campaign's own cards.
type HostSpec struct {
	Cards  []string `key:"card"`   // UUIDs
	Accept []string `key:"accept"` // fields that may be out of range
	Host   Host     `key:"-"`
}

// HostKind is env_bound: what holds of these cards on this host.
var HostKind = &compile.Kind{
	Name: "probe", Version: 1, Purity: compile.EnvBound, Outputs: []string{"report"},
	Task: hostTask, Collect: collectHost, Policy: policy,
	// A host that was in range yesterday is looked at again.
	Accept: func(any) samples.Rule { return samples.Rule{MaxAge: 24 * time.Hour} },
}

// hostTimeout bounds the probe: reading the cards takes a second, the rates
// under load some more a card.
const hostTimeout = 10 * time.Minute

// HostProbe declares the node; nil for a CPU campaign. It stands alone, so that
// its record can be looked up before the campaign is compiled.
func HostProbe(c *lang.Campaign, f Facts) []compile.Decl {
	frameworks := Compared(c)
	if c.GPUs == nil || len(frameworks) == 0 {
		return nil
	}
	target := frameworks[0]
	return []compile.Decl{{
		Addr: HostAddr, Kind: HostKind, Block: block(target),
		Spec:      HostSpec{Cards: f.Cards, Accept: slices.Sorted(slices.Values(c.GPUs.Accept)), Host: hostOf(c, f, target)},
		Resources: compile.Resources{GPUs: c.GPUs.IDs, Quiet: true},
		Timeout:   hostTimeout,
	}}
}

const hostFile = "spec.probe.json"

func hostTask(jobs []compile.Job, dir string) (executors.Task, error) {
	j := jobs[0]
	s := j.Spec.(HostSpec)
	id := sched.StepID(j.Key)
	folder := filepath.Join(dir, "steps", id)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return executors.Task{}, fmt.Errorf("making the step of %s: %w", j.Addr, err)
	}
	client := probe.ClientSpec{IDs: s.Cards, Pythons: probe.Pythons(s.Host.program()), Accept: s.Accept, Out: folder}
	if err := client.WriteSpec(filepath.Join(folder, hostFile)); err != nil {
		return executors.Task{}, fmt.Errorf("making the step of %s: %w", j.Addr, err)
	}
	spec := runner.Spec{Version: runner.SpecVersion, Steps: []runner.Step{{
		ID: id, Argv: []string{s.Host.Self, "probe-client", "{step}/" + hostFile},
		Env: environment(s.Host.Place.Env, nil), Deadline: hostTimeout, Outputs: []string{probe.ReportFile},
	}}}
	return NewTask(spec, dir, s.Host)
}

func collectHost(j compile.Job, step compile.StepResult) compile.Result {
	if step.Class != "" {
		return compile.Result{Outcome: failure(executors.Class(step.Class), step.Reason)}
	}
	return compile.Result{Outcome: cache.Outcome{State: cache.OK},
		Outputs: []compile.Value{{Name: "report", File: filepath.Join(step.Dir, probe.ReportFile)}}, Observed: j.Spec.(HostSpec).Host.observed()}
}

// Observed are the fields of a probe's report as facts that are recorded with
// every measurement of the host, and keyed in none.
func Observed(r probe.Report, cards []string) []cache.Observed {
	var out []cache.Observed
	for _, f := range r.Fields {
		name := "probe." + f.Name
		if i := slices.Index(cards, f.GPU); i >= 0 {
			name += fmt.Sprintf(".gpu%d", i)
		}
		value := strings.TrimSpace(f.Value + " " + f.Unit)
		if f.Verdict == probe.Unknown {
			value = "unknown: " + f.Reason
		}
		if f.Verdict == probe.Accepted {
			value += " (accepted)"
		}
		out = append(out, cache.Observed{Name: name, Value: value})
	}
	return out
}

// CheckAccept checks the fields that the gpus block accepts.
func CheckAccept(c *lang.Campaign) lang.Diagnostics {
	if c.GPUs == nil {
		return nil
	}
	var out lang.Diagnostics
	for _, name := range c.GPUs.Accept {
		if !slices.Contains(probe.Names, name) {
			out = append(out, lang.Diagnostic{Severity: lang.Error, Code: "unknown_probe_field", Summary: "Unknown field of the host's probe",
				Detail: fmt.Sprintf("gpus: accept has %q, and nothing of that name is looked at. Write some of %s.", name, strings.Join(probe.Names, ", ")),
				Range:  c.GPUs.Range})
		}
	}
	return out
}
