package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Names of the files in a step's folder.
const (
	specFile    = "profile.json"
	promptsFile = "prompts.jsonl"
	summaryFile = "summary.json"
	traceFile   = "trace"
)

// task is one armed server life with a step for every stage that is stale.
func task(jobs []compile.Job, dir string) (executors.Task, error) {
	first := jobs[0].Spec.(Spec)
	traces := traceDir(dir, sched.StepID(jobs[0].Key))
	if err := os.MkdirAll(traces, 0o700); err != nil {
		return executors.Task{}, fmt.Errorf("making the folder of traces: %w", err)
	}
	host := first.Server.Life.Host
	spec := runner.Spec{
		Version:   runner.SpecVersion,
		Processes: []runner.Process{first.process(traces)},
		Endpoint:  runner.Endpoint{Role: "server"},
		Deadlines: runner.Deadlines{Start: host.StartTimeout},
		Secrets:   host.Secrets,
	}
	for _, j := range jobs {
		step, err := step(j, dir, traces)
		if err != nil {
			return executors.Task{}, fmt.Errorf("making the step of %s: %w", j.Addr, err)
		}
		spec.Steps = append(spec.Steps, step)
	}
	return campaign.NewTask(spec, dir, host)
}

// process is the candidate's server, armed.
func (s Spec) process(traces string) runner.Process {
	server := s.Server
	for _, a := range s.Args {
		server.Life.Args = append(server.Life.Args[:len(server.Life.Args):len(server.Life.Args)], s.fill(a, traces))
	}
	if len(s.Armed) > 0 {
		env := maps.Clone(server.Env)
		if env == nil {
			env = map[string]string{}
		}
		for name, v := range s.Armed {
			env[name] = s.fill(v, traces)
		}
		server.Env = env
	}
	return campaign.ServerOf(server)
}

func step(j compile.Job, dir, traces string) (runner.Step, error) {
	s := j.Spec.(Spec)
	id := sched.StepID(j.Key)
	folder := filepath.Join(dir, "steps", id)
	prompts, err := dataset.Generate(s.Prompts)
	if err != nil {
		return runner.Step{}, err
	}
	client, err := json.MarshalIndent(ClientSpec{
		Version: clientVersion, Stage: s.Stage, Role: s.Role, Host: s.Host,
		Start: Call{s.Start.Path, s.fill(s.Start.Body, traces)}, Stop: Call{s.Stop.Path, s.fill(s.Stop.Body, traces)},
		Send: Send{Path: s.Server.Load.Path, API: wire.API(s.Server.Load.API), Model: s.Server.Model.ID,
			Temperature: s.Server.Load.Temperature, Concurrency: s.Concurrency},
		Prompts: filepath.Join(folder, promptsFile), Warmup: s.Warmup, Active: s.Active,
		Traces: traces, Out: folder,
	}, "", "  ")
	if err != nil {
		return runner.Step{}, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return runner.Step{}, err
	}
	for name, b := range map[string][]byte{promptsFile: prompts, specFile: client} {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			return runner.Step{}, err
		}
	}
	return runner.Step{
		ID: id, Argv: []string{s.Server.Life.Host.Self, "profile-client", "{step}/" + specFile, "{url}"},
		Env: campaign.Environment(nil), Deadline: stepDeadline, Outputs: []string{summaryFile, traceFile},
	}, nil
}

// collect takes what the client left: the trace and what was done.
func collect(_ compile.Job, step compile.StepResult) compile.Result {
	if step.Class != "" {
		return compile.Result{Outcome: failed(result.Class(step.Class), step.Reason)}
	}
	sum, err := readSummary(filepath.Join(step.Dir, summaryFile))
	if err != nil {
		return compile.Result{Outcome: failed(executors.ClassNoOutput, "the client's summary cannot be read: "+err.Error())}
	}
	return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Warnings: sum.Warnings, Outputs: []compile.Value{
		{Name: "summary", File: filepath.Join(step.Dir, summaryFile)},
		{Name: "trace", File: filepath.Join(step.Dir, traceFile)}}}
}

// failed is a failed outcome that is not kept.
func failed(class result.Class, reason string) cache.Outcome {
	return cache.Outcome{State: cache.Failed, Class: string(class), Reason: reason}
}
