package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/ncu"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// NCUSpec asks for the counters of one kernel before and after an edit, and
// for the digest of them (R167–R170).
type NCUSpec struct {
	Baseline  Harness     `key:"baseline"`
	Candidate Harness     `key:"candidate"`
	MinBytes  float64     `key:"min_bytes"` // that the shapes make the kernel move; 0 is unknown
	Subject   ncu.Subject `key:"-"`         // copied into the digest
	Refuted   []string    `key:"refuted"`   // ids of edits tried before in vain
	Clocks    string      `key:"clocks"`    // ncu's --clock-control: base (also "") or none
	// NoHarness says why the baseline's kernel cannot be launched: the digest is
	// then a blocker, and nothing is run.
	NoHarness string `key:"no_harness"`
	Program   string `key:"-"` // absolute path of ncu; "" is the one on the PATH
	Self      string `key:"-"` // the sotabuild binary
}

// Harness is a command that launches the kernel with the shapes, types and
// layouts of the model's run (R165).
type Harness struct {
	Argv   []string          `key:"arg" json:"argv"`      // Argv[0] is an absolute path
	Files  key.Digest        `key:"files" json:"-"`       // of what the command is made of
	Env    map[string]string `key:"env" json:"env"`       // complete but for PATH and locale
	Kernel string            `key:"kernel" json:"kernel"` // regular expression on the kernel's name
	Shape  string            `key:"shape" json:"shape"`   // equal tags mean the same work
	Ranged bool              `key:"ranged" json:"ranged"` // it names the range to profile (cudaProfilerStart)
	Commit string            `key:"-" json:"commit"`
	File   string            `key:"-" json:"file"` // source file of the kernel
}

// NCUKind is the row of the ncu node in the table of kinds. A node that ends
// with a blocker has failed and still has its digest, which says why.
var NCUKind = &compile.Kind{
	Name: "ncu", Version: 2, Purity: compile.Measured,
	Outputs: []string{"digest_md", "digest_json", "folder"}, KeepsFailures: true,
	Task: ncuTask, Collect: collectNCU, Policy: policy,
}

// DeclareNCU declares the node at an address, of a block of the campaign. The
// error says what is wrong with the harnesses.
func DeclareNCU(addr, block string, gpus []string, s NCUSpec) (compile.Decl, error) {
	var errs []error
	for _, side := range []struct {
		role string
		Harness
	}{{"baseline", s.Baseline}, {"candidate", s.Candidate}} {
		role, h := side.role, side.Harness
		if s.NoHarness != "" {
			continue
		}
		if len(h.Argv) == 0 || !filepath.IsAbs(h.Argv[0]) {
			errs = append(errs, fmt.Errorf("the harness of the %s is %q; write its command with the absolute path of its program", role, h.Argv))
		}
		if _, err := regexp.Compile(h.Kernel); err != nil || h.Kernel == "" {
			errs = append(errs, fmt.Errorf("the kernel of the %s is %q; write a regular expression on its name", role, h.Kernel))
		}
	}
	if !slices.Contains([]string{"", "base", "none"}, s.Clocks) {
		errs = append(errs, fmt.Errorf("clock control %q; write base, which holds the clocks, or none", s.Clocks))
	}
	if len(errs) > 0 {
		return compile.Decl{}, errors.Join(errs...)
	}
	return compile.Decl{
		Addr: addr, Kind: NCUKind, Block: block, Spec: s, Timeout: ncuDeadline,
		Resources: compile.Resources{GPUs: gpus, Quiet: true},
	}, nil
}

// Deadlines: ncu replays a kernel some forty times and flushes caches between;
// the harness's own start is what takes long.
const (
	ncuSideDeadline = 20 * time.Minute
	ncuDeadline     = 2*ncuSideDeadline + 10*time.Minute
)

// Names of the files in an ncu step's folder.
const (
	ncuSpecFile   = "ncu.json"
	digestFolder  = "digests"
	digestArchive = "digest.tar"
)

// firstVersion is the version in a step's own folder of digests; who keeps the
// digest gives it the number that is due there (R168).
const firstVersion = "v001"

func ncuTask(jobs []compile.Job, dir string) (executors.Task, error) {
	first := jobs[0].Spec.(NCUSpec)
	spec := runner.Spec{Version: runner.SpecVersion}
	for _, j := range jobs {
		s := j.Spec.(NCUSpec)
		id := sched.StepID(j.Key)
		folder := filepath.Join(dir, "steps", id)
		b, err := json.MarshalIndent(NCUClientSpec{
			Version: ncuClientVersion, Baseline: s.Baseline, Candidate: s.Candidate,
			MinBytes: s.MinBytes, Subject: s.Subject, Refuted: s.Refuted, Program: s.Program, Clocks: s.Clocks, NoHarness: s.NoHarness, Out: folder,
		}, "", "  ")
		if err != nil {
			return executors.Task{}, err
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return executors.Task{}, fmt.Errorf("making the step of %s: %w", j.Addr, err)
		}
		if err := os.WriteFile(filepath.Join(folder, ncuSpecFile), b, 0o600); err != nil {
			return executors.Task{}, fmt.Errorf("making the step of %s: %w", j.Addr, err)
		}
		spec.Steps = append(spec.Steps, runner.Step{
			ID: id, Argv: []string{s.Self, "ncu-client", "{step}/" + ncuSpecFile},
			Env: campaign.Environment(nil), Deadline: ncuDeadline,
			Outputs: []string{digestArchive},
		})
	}
	return campaign.NewTask(spec, dir, campaign.Host{Self: first.Self})
}

// collectNCU takes the digest. One with a blocker is a failed node that keeps
// its outputs; a step without a digest gets one output that says why.
func collectNCU(_ compile.Job, step compile.StepResult) compile.Result {
	root := filepath.Join(step.Dir, digestFolder, firstVersion)
	md, jsonFile := filepath.Join(root, "digest.md"), filepath.Join(root, "digest.json")
	class, reason := result.Class(step.Class), step.Reason
	if class == "" {
		d, err := readDigest(jsonFile)
		switch {
		case err != nil:
			class, reason = executors.ClassNoOutput, "the digest cannot be read: "+err.Error()
		case d.Blocker != nil:
			out := digestOutputs(step.Dir, md, jsonFile)
			out.Outcome = failed(result.NoCounters, d.Blocker.Code+": "+d.Blocker.Detail)
			return out
		}
	}
	if class != "" {
		why := []byte(string(class) + ": " + reason + "\n")
		return compile.Result{Outcome: failed(class, reason), Outputs: []compile.Value{
			{Name: "digest_md", Bytes: why}, {Name: "digest_json", Bytes: []byte("null\n")}, {Name: "folder", Bytes: why}}}
	}
	out := digestOutputs(step.Dir, md, jsonFile)
	out.Outcome = cache.Outcome{State: cache.OK}
	return out
}

func digestOutputs(dir, md, jsonFile string) compile.Result {
	return compile.Result{Outputs: []compile.Value{
		{Name: "digest_md", File: md}, {Name: "digest_json", File: jsonFile},
		{Name: "folder", File: filepath.Join(dir, digestArchive)}}}
}

func readDigest(path string) (ncu.Digest, error) {
	var d ncu.Digest
	b, err := os.ReadFile(path)
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(b, &d)
}
