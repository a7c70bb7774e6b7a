package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
)

const poolTasks = 50

// gpuPool lets each task hold a file that stands for its GPU: who finds it
// there shares a GPU. The engine's pool hands out the ids where the place does
// not.
func gpuPool(b *bench) {
	pool := filepath.Join(b.tasks, "pool")
	b.must(os.Mkdir(pool, 0o777))
	if b.GPUEnv != "" {
		poolOfThePlace(b, pool)
		return
	}
	gpus := b.GPUs
	if gpus == nil {
		gpus = []string{"0", "1"}
	}
	mark := b.job("exit", "0").mark
	kind := &compile.Kind{
		Name: "hold", Version: 1, Purity: compile.Pure, Outputs: []string{"gpu"},
		Policy: func(string) (int, bool) { return 0, false },
		Task: func(jobs []compile.Job, dir string) (executors.Task, error) {
			gpu := jobs[0].Spec.(holdSpec).GPU
			return executors.Task{
				Dir: dir, Image: b.Image, StopGrace: time.Second, Resources: executors.Resources{GPUs: []string{gpu}},
				Process: specs.Process{Cwd: dir, Args: []string{actor, mark, "hold", pool, gpu}},
				Mounts: []specs.Mount{
					{Source: actor, Destination: actor, Options: []string{"ro"}},
					{Source: pool, Destination: pool},
				},
			}, nil
		},
		// There is no supervisor that would write the step's record: the file
		// says that it was held, whatever the class.
		Collect: func(_ compile.Job, s compile.StepResult) compile.Result {
			text, err := os.ReadFile(filepath.Join(s.TaskDir, "held"))
			if err != nil {
				return compile.Result{Outcome: cache.Outcome{State: cache.Failed, Class: s.Class, Reason: s.Reason}}
			}
			return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: []compile.Value{{Name: "gpu", Bytes: text}}}
		},
	}
	var decls []compile.Decl
	for i := range poolTasks {
		gpu := gpus[i%len(gpus)]
		decls = append(decls, compile.Decl{
			Addr: fmt.Sprintf("hold.%02d", i), Kind: kind, Block: "framework.x", Spec: holdSpec{i, gpu},
			Resources: compile.Resources{GPUs: []string{gpu}},
		})
	}
	graph, problems := compile.Build(decls, compile.Env{})
	if len(problems) > 0 {
		b.t.Fatal(problems)
	}
	store, err := cache.OpenLocal(filepath.Join(b.t.TempDir(), "store"), cache.Options{Command: "suite"})
	b.must(err)
	defer store.Close()
	p, problems := plan.Make(graph, store, plan.Options{})
	if len(problems) > 0 {
		b.t.Fatal(problems)
	}
	e := b.fresh()
	var said []string // by the scheduler's goroutine
	sum, err := sched.Run(b.bg(), sched.Config{
		Graph: graph, Plan: p, Store: store, Dir: b.tasks, Run: "run-" + mark, Tool: "suite", Host: "here", Now: time.Now,
		Executor: func(string) executors.Executor { return e },
		Events: func(v event.Event) {
			if v.Reason != "" || v.Text != "" {
				said = append(said, v.Node+" "+v.Reason+v.Text)
			}
		},
	})
	b.must(err)
	if sum.OK != poolTasks {
		b.t.Errorf("%d of %d held their GPU alone; %+v\n%s", sum.OK, poolTasks, sum, strings.Join(said, "\n"))
	}
	if left := living(mark); len(left) > 0 {
		b.t.Errorf("left running: %v", left)
	}
	b.nothingOf("run-" + mark)
}

// nothingOf says that no task of a run is listed.
func (b *bench) nothingOf(run string) {
	b.t.Helper()
	if list, err := b.fresh().List(b.bg(), run); err != nil || len(list) > 0 {
		b.t.Errorf("listed at the end: %v, %v", list, err)
	}
}

type holdSpec struct {
	N   int    `key:"n"`
	GPU string `key:"gpu"`
}

// poolOfThePlace starts all tasks at once: the place hands out the GPUs.
func poolOfThePlace(b *bench, pool string) {
	e := b.fresh()
	var all sync.WaitGroup
	for range poolTasks {
		j := b.job("hold", pool, "$"+b.GPUEnv)
		j.Mounts = append(j.Mounts, specs.Mount{Source: pool, Destination: pool})
		j.Resources.GPUs = []string{"0"}
		h := b.start(e, j)
		all.Go(func() {
			o, err := e.Wait(b.bg(), h)
			if err != nil || o.Reason != executors.Exited || o.Code != 0 {
				b.t.Errorf("%s: outcome %+v, %v; want a GPU for itself", j.ID, o, err)
			}
		})
	}
	all.Wait()
}
