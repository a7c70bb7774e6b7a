package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// SheetVersion is the version of jobs.json.
const SheetVersion = 1

// Sheet says what a task's folder is for: DIR/<task>/jobs.json, written before
// the task starts. With it a later process makes records of finished steps.
type Sheet struct {
	Version  int              `json:"v"`
	Task     executors.TaskID `json:"task"`
	Run      string           `json:"run"`
	Tool     string           `json:"tool"`
	Host     string           `json:"host"`
	Block    string           `json:"block"` // whose executor runs it
	Observed []cache.Observed `json:"observed,omitempty"`
	Jobs     []Item           `json:"jobs"`
}

// Item is one job of a sheet.
type Item struct {
	Step     string               `json:"step"`
	Node     string               `json:"node"`
	Kind     string               `json:"kind"`
	Version  int                  `json:"kind_version"`
	Key      key.Key              `json:"key"`
	Manifest string               `json:"manifest"`
	Attempt  int                  `json:"attempt"`
	Inputs   []compile.InputValue `json:"inputs,omitempty"`
	// SpecKey is the key of the spec's own facts: what a spec must say to stand
	// for this job's. Spec lets Collect run when the node is no longer in the graph; absent if
	// it has no JSON form.
	SpecKey key.Key         `json:"spec_key"`
	Spec    json.RawMessage `json:"spec,omitempty"`

	live
}

// live is the part of an item that is not written down.
type live struct {
	kind    *compile.Kind
	job     compile.Job
	timeout time.Duration
}

// specKey hashes the facts of a spec alone; nil has none.
func specKey(spec any) key.Key {
	var b key.Builder
	if spec != nil {
		b.Struct(spec)
	}
	return b.Finish().Key()
}

// folder is a task's folder with the jobs whose end is not known yet.
type folder struct {
	dir     string
	sheet   *Sheet
	pending []int // indexes into sheet.Jobs, ascending
	clerk   clerk
}

func openFolder(dir string, b *Sheet, c clerk) folder {
	f := folder{dir: dir, sheet: b, clerk: c}
	for i := range b.Jobs {
		f.pending = append(f.pending, i)
	}
	return f
}

// write makes jobs.json durable.
func (f *folder) write() error {
	b, err := json.MarshalIndent(f.sheet, "", " ")
	if err != nil {
		return fmt.Errorf("encoding jobs of task %s: %w", f.sheet.Task, err)
	}
	return writeDurable(filepath.Join(f.dir, "jobs.json"), b)
}

// writeDurable writes a file by rename and syncs it and its folder.
func writeDurable(path string, b []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(b); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// readSheet reads a task's jobs.json and checks that it is this task's.
func readSheet(dir string, id executors.TaskID) (*Sheet, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "jobs.json"))
	if err != nil {
		return nil, err
	}
	var b Sheet
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, fmt.Errorf("reading jobs.json: %w", err)
	}
	if b.Version != SheetVersion || b.Task != id {
		return nil, fmt.Errorf("jobs.json of version %d is about task %q; want version %d and task %q", b.Version, b.Task, SheetVersion, id)
	}
	return &b, nil
}

// step reads the record of a job's step; nil if it has not ended. A record
// that is not of this step and task is an error: it says nothing about the job.
func (f *folder) step(w *Item) (*runner.StepRecord, error) {
	r, err := runner.ReadStep(f.stepDir(w))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case r.ID != w.Step || r.Task != f.sheet.Task:
		return nil, fmt.Errorf("step.json is of step %q of task %q", r.ID, r.Task)
	}
	return &r, nil
}

// exit reads the task's own last word; nil if there is none.
func (f *folder) exit() (*runner.ExitRecord, error) {
	r, err := runner.ReadExit(f.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case r.Task != f.sheet.Task:
		return nil, fmt.Errorf("exit.json is of task %q", r.Task)
	}
	return &r, nil
}

func (f *folder) stepDir(w *Item) string { return filepath.Join(f.dir, "steps", w.Step) }

func (f *folder) logs() string { return filepath.Join(f.dir, "logs") }

// log is where a person reads about the job: its own log file, else its step's
// folder where that stays, else the task's logs.
func (f *folder) log(w *Item, ok bool) string {
	own := filepath.Join(f.logs(), w.Step+".log")
	if _, err := os.Stat(own); err == nil {
		return own
	}
	if _, err := os.Stat(f.stepDir(w)); err == nil && !ok {
		return f.stepDir(w)
	}
	return f.logs()
}

// setup is what the task's servers took to come up; 0 of a task without any, and
// while they are not.
func (f *folder) setup() time.Duration {
	up, err := runner.ReadUp(f.dir)
	if err != nil || len(up) == 0 {
		return 0 // it only says how long the next one may take
	}
	from, to := up[0].Started, up[0].Healthy
	for _, p := range up[1:] {
		if p.Started.Before(from) {
			from = p.Started
		}
		if p.Healthy.After(to) {
			to = p.Healthy
		}
	}
	return max(0, to.Sub(from))
}

// vain is what a task that ended without servers took; that of one which had them
// is their setup.
func (f *folder) vain() time.Duration {
	if took := f.setup(); took > 0 {
		return took
	}
	exit, err := f.exit()
	if err != nil || exit == nil {
		return 0
	}
	return max(0, exit.Ended.Sub(exit.Started))
}

// harvest records every pending job whose step has ended and passes on what
// became of it. A step record that cannot be read stays pending.
func (f *folder) harvest(pass func(Done)) error {
	rest := f.pending[:0]
	defer func() { f.pending = rest }()
	for at, i := range f.pending {
		w := &f.sheet.Jobs[i]
		r, err := f.step(w)
		if r == nil || err != nil {
			rest = append(rest, i)
			continue
		}
		d, err := f.collect(i, compile.StepResult{
			Dir: f.stepDir(w), TaskDir: f.dir, Class: string(r.Outcome.Class), Reason: r.Outcome.Reason,
		}, cache.Span{Started: r.Started.UTC(), Seconds: r.Ended.Sub(r.Started).Seconds(), Setup: f.setup().Seconds()})
		if err != nil {
			rest = append(rest, f.pending[at:]...)
			return err
		}
		pass(d)
	}
	return nil
}

// giveUp ends every pending job for one reason.
func (f *folder) giveUp(class executors.Class, reason string, pass func(Done)) error {
	for len(f.pending) > 0 {
		i := f.pending[0]
		w, why := &f.sheet.Jobs[i], reason
		if _, err := f.step(w); err != nil {
			why = fmt.Sprintf("%s; its record: %v", reason, err)
		}
		d, err := f.collect(i, compile.StepResult{TaskDir: f.dir, Class: string(class), Reason: why},
			cache.Span{Started: f.clerk.Now().UTC(), Setup: f.vain().Seconds()})
		if err != nil {
			return err
		}
		f.pending = f.pending[1:]
		pass(d)
	}
	return nil
}

// collect asks the kind for the job's result and records it. Interrupted work
// is nobody's result.
func (f *folder) collect(i int, step compile.StepResult, span cache.Span) (Done, error) {
	w := &f.sheet.Jobs[i]
	res := compile.Result{Outcome: interrupted(step.Reason)}
	if step.Class != string(executors.ClassInterrupted) {
		res = w.kind.Collect(w.job, step)
		if res.Outcome.State != cache.OK && res.Outcome.Class == "" {
			res.Outcome.Class, res.Outcome.Reason = step.Class, step.Reason
		}
	}
	d, err := f.clerk.record(f.sheet, w, res, span)
	d.Job, d.Log = i, f.log(w, d.Outcome.State == cache.OK)
	return d, err
}
