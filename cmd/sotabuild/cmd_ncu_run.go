package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/local"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
	"github.com/sotabuild/sotabuild/stdlib/ncu"
	"github.com/sotabuild/sotabuild/stdlib/profile"
)

// harnessOptions say which kernel of which trace.
type harnessOptions struct{ trace, mapping, kernel, stage string }

func (o *harnessOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.trace, "trace", "", "trace that has the kernel")
	f.StringVar(&o.mapping, "mapping", "", "trace of the same work without graphs, with shapes")
	f.StringVar(&o.kernel, "kernel", "", "regular expression on the kernel's name")
	f.StringVar(&o.stage, "stage", "", "prefill, decode or mixed alone")
}

func harnessCommand(a *app) *cobra.Command {
	var o harnessOptions
	var out string
	cmd := &cobra.Command{
		Use:   "harness --trace FILE --kernel REGEX",
		Short: "Write a program that launches a kernel with the shapes of a trace",
		Long: "Writes a PyTorch program that calls the operator which launched the kernel, with the\n" +
			"shapes, types and layouts that the trace recorded of it. Its --check needs no GPU.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := a.generate(cmd.Context(), o)
			if err != nil {
				return err
			}
			if g.Missing != "" {
				return fail(codeNodeFailed, errors.New(g.Missing))
			}
			if out == "" {
				_, err = a.out.Write(g.Script)
				return err
			}
			return os.WriteFile(out, g.Script, 0o644)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "file to write; standard output without it")
	return cmd
}

func (a *app) generate(ctx context.Context, o harnessOptions) (profile.Generated, error) {
	if o.trace == "" || o.kernel == "" {
		return profile.Generated{}, fail(codeUsage, errors.New("a harness is made of a kernel in a trace; write --trace FILE --kernel REGEX"))
	}
	g, err := profile.Generate(ctx, o.trace, o.mapping, o.kernel, o.stage, a.err)
	if err != nil {
		return g, fail(codeUsage, err)
	}
	for _, n := range g.Recorded.Notes {
		fmt.Fprintf(a.err, "note: %s\n", n)
	}
	return g, nil
}

// sideOptions are one side of a comparison.
type sideOptions struct{ program, script, kernel string }

// ncuRunOptions are the flags of ncu run.
type ncuRunOptions struct {
	harnessOptions
	baseline, candidate sideOptions
	out, ncu, clocks    string
	minBytes            float64
}

func ncuRunCommand(a *app) *cobra.Command {
	var o ncuRunOptions
	cmd := &cobra.Command{
		Use:   "run --kernel REGEX (--trace FILE | --harness FILE)",
		Short: "Collect a kernel's counters before and after an edit, and write the digest",
		Long: "Runs a program that launches the kernel under ncu, once for each side: full set and\n" +
			"source, one launch. The sides differ by what runs the program (an environment with the\n" +
			"edit), by the program, or by the kernel. With --trace the program is written from the\n" +
			"shapes of a trace. What keeps the counters from us is a digest too, with exit code 5.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ncuRun(cmd.Context(), o) },
	}
	o.harnessOptions.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.baseline.script, "harness", "", "program that launches the kernel, for both sides")
	f.StringVar(&o.candidate.script, "candidate-harness", "", "the same for the candidate alone")
	f.StringVar(&o.baseline.program, "baseline", "python3", "what runs the baseline's program")
	f.StringVar(&o.candidate.program, "candidate", "", "what runs the candidate's; without it the same")
	f.StringVar(&o.candidate.kernel, "candidate-kernel", "", "regular expression on the candidate's kernel")
	f.StringVar(&o.out, "out", filepath.Join("kernel", "ncu-digests"), "folder of digests; a new version is made in it")
	f.StringVar(&o.ncu, "ncu", "", "the ncu to run; without it that on the PATH")
	f.StringVar(&o.clocks, "clock-control", "", "base holds the GPU's clocks (ncu's default), none leaves them")
	f.Float64Var(&o.minBytes, "min-bytes", 0, "bytes that the shapes make the kernel move; 0 is unknown")
	return cmd
}

// spec is the node's spec; a script from a trace is written beside the digests.
func (a *app) ncuSpec(ctx context.Context, o ncuRunOptions) (profile.NCUSpec, error) {
	s := profile.NCUSpec{MinBytes: o.minBytes, Clocks: o.clocks, Program: ncuProgram(o.ncu)}
	if o.kernel == "" {
		return s, errors.New("nothing says which kernel; write --kernel REGEX")
	}
	shape, pattern, ranged := "", o.kernel, false
	if o.trace != "" {
		g, err := a.generate(ctx, o.harnessOptions)
		if err != nil {
			return s, err
		}
		if s.NoHarness = g.Missing; s.NoHarness != "" && o.baseline.script == "" {
			s.Baseline.Kernel, s.Candidate.Kernel = pattern, pattern
			return s, nil
		}
		s.NoHarness, shape = "", g.Shape
		if o.baseline.script == "" {
			o.baseline.script = filepath.Join(o.out, "harness", fmt.Sprintf("%s.%s.py", fileName(g.Recorded.Function), key.Sum(g.Script).Short()))
			pattern, ranged = g.Kernel, true
			if err := os.MkdirAll(filepath.Dir(o.baseline.script), 0o755); err != nil {
				return s, err
			}
			if err := os.WriteFile(o.baseline.script, g.Script, 0o644); err != nil {
				return s, err
			}
			fmt.Fprintf(a.err, "harness: %s\n", relative(o.baseline.script))
		}
	}
	if o.baseline.script == "" {
		return s, errors.New("nothing launches the kernel; write --trace FILE to have a program written, or --harness FILE")
	}
	same := o.candidate == sideOptions{}
	if o.candidate.program == "" {
		o.candidate.program = o.baseline.program
	}
	if o.candidate.kernel == "" {
		o.candidate.kernel = pattern
	}
	candidateRanged := false
	if o.candidate.script == "" {
		o.candidate.script, candidateRanged = o.baseline.script, ranged
	}
	if same {
		return s, errors.New("both sides are the same; the candidate needs another program (--candidate), harness (--candidate-harness) or kernel (--candidate-kernel)")
	}
	o.baseline.kernel = pattern
	var err error
	if s.Baseline, err = o.baseline.harness(shape, ranged); err != nil {
		return s, err
	}
	s.Candidate, err = o.candidate.harness(shape, candidateRanged)
	return s, err
}

var unsafeName = lazyregexp.New(`[^A-Za-z0-9_.-]+`)

// fileName is a kernel's function as a file's name.
func fileName(function string) string {
	s := unsafeName.ReplaceAllString(function, "_")
	return s[:min(len(s), 80)]
}

func (o sideOptions) harness(shape string, ranged bool) (profile.Harness, error) {
	program, err := exec.LookPath(o.program)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return profile.Harness{}, fmt.Errorf("%q does not run the harness: %w", o.program, err)
	}
	script, err := filepath.Abs(o.script)
	if err != nil {
		return profile.Harness{}, err
	}
	b, err := os.ReadFile(script)
	if err != nil {
		return profile.Harness{}, fmt.Errorf("reading the harness: %w", err)
	}
	return profile.Harness{Argv: []string{program, script}, Files: key.Sum(b), Kernel: o.kernel, Shape: shape, Ranged: ranged, Env: ncuEnvironment()}, nil
}

// ncuProgram is the caller's ncu by its absolute path: a task has a PATH of its
// own, and Nsight Compute is seldom on it. One that is not found stays as it is
// named, so that the node says what is missing.
func ncuProgram(name string) string {
	path, err := exec.LookPath(cmp.Or(name, "ncu"))
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return name
	}
	return path
}

// passed are the variables of the caller's environment that a harness gets: who
// it is, where libraries and GPUs are, and what keeps machines safe.
var passed = []string{"HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "TRITON_CACHE_DIR",
	"NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"}

func ncuEnvironment() map[string]string {
	env := map[string]string{}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	return env
}

// ncuRun runs the node as a task of its own and keeps its digest as the next
// version.
func (a *app) ncuRun(ctx context.Context, o ncuRunOptions) error {
	s, err := a.ncuSpec(ctx, o)
	if err != nil {
		return fail(codeUsage, err)
	}
	if s.Self, err = os.Executable(); err != nil {
		return err
	}
	decl, err := profile.DeclareNCU("ncu", "ncu", nil, s)
	if err != nil {
		return fail(codeUsage, err)
	}
	store, err := cache.OpenLocal(a.storeDir(), cache.Options{Command: "sotabuild ncu run"})
	if err != nil {
		return err
	}
	dir, blocked, err := a.runNCU(ctx, store, decl, s.Self, o.out)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	fmt.Fprintln(a.out, relative(dir))
	if blocked != "" {
		return fail(codeNodeFailed, errors.New(blocked))
	}
	return nil
}

// runNCU returns the digest's folder and, if it has a blocker, what that says.
func (a *app) runNCU(ctx context.Context, store *cache.Local, decl compile.Decl, self, out string) (dir, blocked string, err error) {
	var b key.Builder
	b.Text("env.host", "", hostname())
	g, problems := compile.Build([]compile.Decl{decl}, compile.Env{Binding: b.Finish().Facts()})
	if len(problems) > 0 {
		return "", "", problemsError(problems)
	}
	p, bad := plan.Make(g, store, plan.Options{Replace: []string{decl.Addr}})
	if len(bad) > 0 {
		return "", "", problemsError(bad)
	}
	base, err := filepath.Abs(a.storeDir())
	if err != nil {
		return "", "", err
	}
	tasks := filepath.Join(base, "tasks")
	runner := local.New(self, tasks)
	interrupt, stop := interrupts()
	defer stop()
	sum, err := sched.Run(ctx, sched.Config{
		Graph: g, Plan: p, Store: store, Dir: tasks,
		Executor: func(string) executors.Executor { return runner },
		Run:      newRunID(), Tool: version(), Host: hostname(), Now: time.Now, Interrupt: interrupt,
	})
	if err != nil {
		return "", "", err
	}
	if sum.Interrupted {
		return "", "", fail(codeInterrupted, errors.New("interrupted; nothing was kept"))
	}
	history := store.History(decl.Addr)
	if len(history) == 0 {
		return "", "", errors.New("the node left no record")
	}
	rec := history[len(history)-1]
	packed, err := store.Bytes(rec.Output("folder"))
	if err != nil {
		return "", "", err
	}
	if rec.Outcome.Class != "" && !bytes.Contains(packed, []byte("digest.json")) {
		return "", "", fail(codeNodeFailed, fmt.Errorf("%s: %s", rec.Outcome.Class, rec.Outcome.Reason))
	}
	if dir, err = unpackDigest(packed, out); err != nil {
		return "", "", err
	}
	return dir, rec.Outcome.Reason, nil
}

// unpackDigest writes a packed digest as the next version of a folder.
func unpackDigest(packed []byte, root string) (string, error) {
	version, err := ncu.Next(root)
	if err != nil {
		return "", err
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("unpacking the digest: %w", err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			return "", fmt.Errorf("unpacking the digest: %w", err)
		}
	}
	return ncu.Place(root, version, files)
}
