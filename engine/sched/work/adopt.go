package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// Adopt takes over what an earlier run left: each task with an unsettled intent
// is ended, its finished steps become records (once, however often Adopt is cut
// off), and its intent is settled. A task that was asked to end after its running
// step is ended like any other, and its steps that never began are no failures. A finished step that cannot become a record,
// because no kind of the graph can read it, is a warning and stays in its
// folder. A task that cannot be ended is an error, after everything else was
// adopted: what it holds must not be used a second time.
//
// It emits events from the calling goroutine and blocks for as long as the
// tasks take to end.
func Adopt(ctx context.Context, p Place, g *compile.Graph, say event.Sink) error {
	a := adoption{Place: p, ctx: ctx, graph: g, say: say, kinds: map[string]*compile.Kind{}, nodes: map[string]*compile.Action{}}
	for i := range a.graph.Actions {
		n := &a.graph.Actions[i]
		a.nodes[n.Addr] = n
		if n.Kind != nil && n.Kind.Collect != nil {
			a.kinds[n.Kind.Name] = n.Kind
		}
	}
	var errs []error
	for _, in := range latest(p.Store.Intents()) {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if in.Kind != intentTask {
			continue
		}
		if err := a.task(in); err != nil {
			errs = append(errs, fmt.Errorf("adopting task %s: %w", in.ID, err))
		}
	}
	return errors.Join(errs...)
}

// latest is the last intent of each id, in the order of the first.
func latest(all []cache.Intent) []cache.Intent {
	var out []cache.Intent
	for _, in := range all {
		if i := slices.IndexFunc(out, func(o cache.Intent) bool { return o.ID == in.ID }); i >= 0 {
			out[i] = in
		} else {
			out = append(out, in)
		}
	}
	return out
}

// adoption is what Adopt knows of the present graph.
type adoption struct {
	Place
	ctx   context.Context
	graph *compile.Graph
	say   event.Sink
	kinds map[string]*compile.Kind // those that run as tasks
	nodes map[string]*compile.Action
}

func (a *adoption) warn(node, format string, args ...any) {
	a.say(event.Event{Type: event.Warning, Node: node, Text: fmt.Sprintf(format, args...)})
}

// task ends and harvests one task.
func (a *adoption) task(in cache.Intent) error {
	var n note
	if err := json.Unmarshal([]byte(in.Note), &n); err != nil {
		return fmt.Errorf("reading its intent: %w", err)
	}
	if string(n.Task) != in.ID || !n.Task.Valid() {
		return fmt.Errorf("its intent is about task %q", n.Task)
	}
	ex, text, err := a.end(&n)
	// What has finished is kept even if the task cannot be ended.
	kept, harvestErr := a.harvest(n.Task)
	if err != nil || harvestErr != nil {
		return errors.Join(err, harvestErr)
	}
	if n.Ref != "" {
		if err := ex.Reap(a.ctx, n.Handle); err != nil {
			return fmt.Errorf("reaping it: %w", err)
		}
	}
	if err := a.Store.Settle(in.ID); err != nil {
		return fmt.Errorf("settling it: %w", err)
	}
	if kept > 0 {
		a.say(event.Event{Type: event.TaskAdopted, Task: in.ID})
	}
	a.say(event.Event{Type: event.TaskReaped, Task: in.ID, Text: text})
	return nil
}

// end stops the task where it was started, and says what it was doing.
func (a *adoption) end(n *note) (executors.Executor, string, error) {
	ex := a.executor(n)
	if ex == nil {
		return nil, "", fmt.Errorf("it was started by executor %q for %q, and no block of this campaign runs there; apply once with one that does", n.Executor, n.Block)
	}
	text := "had ended"
	if n.Ref != "" {
		soon, cancel := context.WithTimeout(a.ctx, harvestEvery)
		defer cancel()
		if _, err := ex.Wait(soon, n.Handle); err != nil {
			text = "was running"
		}
	}
	h, err := end(a.ctx, ex, n.Handle, n.Run, defaultGrace)
	switch {
	case err != nil:
		return nil, "", err
	case h.Ref == "":
		text = "was not started"
	case n.Ref == "":
		text = "was running"
	}
	n.Handle = h
	return ex, text, nil
}

// executor is the one that started the task: that of its block, another block's
// of the same name if the campaign has changed, or else one made for it.
func (a *adoption) executor(n *note) executors.Executor {
	if a.Executor == nil {
		return a.elsewhere(n.Executor)
	}
	blocks := []string{n.Block}
	for i := range a.graph.Actions {
		if b := a.graph.Actions[i].Block; b != blocks[len(blocks)-1] {
			blocks = append(blocks, b)
		}
	}
	for _, b := range blocks {
		if ex := a.Executor(b); ex != nil && ex.Name() == n.Executor {
			return ex
		}
	}
	return a.elsewhere(n.Executor)
}

func (a *adoption) elsewhere(name string) executors.Executor {
	if a.Elsewhere == nil {
		return nil
	}
	return a.Elsewhere(name)
}

// harvest makes records of a task's finished steps, and of what its exit record
// says about the others. It returns the number of jobs that have a record.
func (a *adoption) harvest(id executors.TaskID) (kept int, err error) {
	dir, err := filepath.Abs(filepath.Join(a.Dir, string(id)))
	if err != nil {
		return 0, fmt.Errorf("finding its folder: %w", err)
	}
	b, err := readSheet(dir, id)
	if err != nil {
		a.warn("", "nothing of task %s can be kept: %v", id, err)
		return 0, nil
	}
	f := folder{dir: dir, sheet: b, clerk: clerk{a.ctx, a.Place}}
	for i := range b.Jobs {
		w := &b.Jobs[i]
		if err := a.fit(w); err != nil {
			if r, _ := f.step(w); r != nil {
				a.warn(w.Node, "its finished step stays in %s: %v", f.stepDir(w), err)
			}
			continue
		}
		if recorded(a.Store, w.Key, id) {
			kept++
			continue
		}
		f.pending = append(f.pending, i)
	}
	count := func(d Done) {
		if d.Record != nil {
			kept++
		}
	}
	if err := f.harvest(count); err != nil {
		return kept, err
	}
	asked, err := runner.DrainAsked(dir)
	if err != nil {
		return kept, err
	}
	if asked {
		if err := f.leave(count); err != nil {
			return kept, err
		}
	}
	exit, err := f.exit()
	if err != nil {
		a.warn("", "the last word of task %s cannot be read: %v", id, err)
	}
	if exit == nil || exit.Outcome.Class == "" {
		return kept, nil // Nobody knows why the others did not run: they will.
	}
	return kept, f.giveUp(exit.Outcome.Class, exit.Outcome.Reason, count)
}

// recorded reports whether the task's step of this key has a record already.
func recorded(r cache.Reader, k key.Key, task executors.TaskID) bool {
	return slices.ContainsFunc(r.Lookup(k), func(r *cache.Record) bool { return r.Origin.Task == string(task) })
}

// fit completes a job that was read back: with its kind, and with a spec of the
// same facts. The present node's spec comes first; the stored
// one serves when the node is gone or means something else now.
func (a *adoption) fit(w *Item) error {
	m, err := key.ParseManifest(w.Manifest)
	if err != nil {
		return err
	}
	if m.Key() != w.Key {
		return fmt.Errorf("its manifest is not that of key %s", w.Key)
	}
	w.Step = StepID(w.Key)
	w.kind = a.kinds[w.Kind]
	if w.kind == nil || w.kind.Version != w.Version {
		return fmt.Errorf("no node of kind %s, version %d, is in the campaign", w.Kind, w.Version)
	}
	node := a.nodes[w.Node]
	if node != nil && node.Kind == w.kind && specKey(node.Spec) == w.SpecKey {
		w.job = w.jobWith(node.Spec, a.Store)
		return nil
	}
	spec, err := a.stored(w)
	if err != nil {
		return err
	}
	if specKey(spec) != w.SpecKey {
		return errors.New("its spec was not stored in full")
	}
	w.job = w.jobWith(spec, a.Store)
	return nil
}

// stored reads the job's spec back into the type that its kind uses now.
func (a *adoption) stored(w *Item) (any, error) {
	if w.Spec == nil {
		return nil, nil
	}
	for i := range a.graph.Actions {
		n := &a.graph.Actions[i]
		if n.Kind != w.kind || n.Spec == nil {
			continue
		}
		v := reflect.New(reflect.TypeOf(n.Spec))
		if err := json.Unmarshal(w.Spec, v.Interface()); err != nil {
			return nil, fmt.Errorf("reading its spec back: %w", err)
		}
		return v.Elem().Interface(), nil
	}
	return nil, fmt.Errorf("no node of kind %s tells the type of its spec", w.Kind)
}
