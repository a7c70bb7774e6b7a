package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
)

// plan is what a watcher is told, in Dir/.oci/plan.json.
type plan struct {
	ID      executors.TaskID `json:"id"`
	Runtime string           `json:"runtime"`
	State   string           `json:"state"`  // the runtime's --root
	Bundle  string           `json:"bundle"` // holds config.json, rootfs, and the writable layer
	Lower   string           `json:"lower,omitempty"`
	Spec    *specs.Spec      `json:"spec,omitempty"`
	Refusal string           `json:"refusal,omitempty"` // why it is not started
}

func planFile(dir string) string { return filepath.Join(dir, ".oci", "plan.json") }
func exitFile(dir string) string { return filepath.Join(dir, ".oci", "exit.json") }

// plan names what a task of this id uses, all below our folder.
func (e *Executor) plan(t executors.Task) (plan, error) {
	if !t.ID.Valid() {
		return plan{}, fmt.Errorf("task %q: its id is not made of 1 to 63 of a-z, 0-9 and -", t.ID)
	}
	runtime, err := e.runtime()
	if err != nil {
		return plan{}, err
	}
	folder, err := filepath.Abs(e.opts.Folder)
	if err != nil {
		return plan{}, fmt.Errorf("finding the folder of containers: %w", err)
	}
	return plan{ID: t.ID, Runtime: runtime, State: filepath.Join(folder, "state"), Bundle: filepath.Join(folder, "bundles", string(t.ID))}, nil
}

// prepare unpacks the image and describes the container. It returns the
// environment of the task.
func (e *Executor) prepare(ctx context.Context, t executors.Task, p *plan) ([]string, error) {
	files, err := e.unpacked(ctx, t.Image)
	if err != nil {
		return nil, err
	}
	p.Lower = files.Dir
	if p.Spec, err = e.spec(t); err != nil {
		return nil, err
	}
	env := merged(files.Config.Env, p.Spec.Process.Env, t.Process.Env)
	p.Spec.Process.Env = nil
	return env, nil
}

// unpacked returns an image's files. A registry is asked once in the life of an
// executor for each reference, so that a tag means the same for all tasks of an
// apply, and registries that count are spared.
func (e *Executor) unpacked(ctx context.Context, ref string) (image.Files, error) {
	e.mu.Lock()
	files, ok := e.images[ref]
	e.mu.Unlock()
	if ok {
		return files, nil
	}
	files, err := image.Unpack(ctx, ref, image.Platform{}, filepath.Join(e.opts.Folder, "images"))
	if kind, _, bad := image.Split(ref); err == nil && bad == nil && kind == image.Registry {
		e.mu.Lock()
		e.images[ref] = files
		e.mu.Unlock()
	}
	return files, err
}

// merged puts environments on top of one another: of variables with the same
// name the last stays, where the first stood.
func merged(layers ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, l := range layers {
		for _, v := range l {
			name, _, _ := strings.Cut(v, "=")
			if i, ok := at[name]; ok {
				out[i] = v
				continue
			}
			at[name] = len(out)
			out = append(out, v)
		}
	}
	return out
}

// remove ends and removes the container and its files, whether there is one or
// not.
func (p plan) remove(ctx context.Context) error {
	known := func() bool {
		_, err := os.Stat(filepath.Join(p.State, string(p.ID)))
		return err == nil
	}
	if known() {
		err := p.run(ctx, nil, "delete", "--force", string(p.ID))
		if err != nil && known() { // else another engine did the same
			return fmt.Errorf("removing container %s: %w", p.ID, err)
		}
	}
	if err := os.RemoveAll(p.Bundle); err != nil {
		return fmt.Errorf("removing the files of container %s: %w", p.ID, err)
	}
	return nil
}

// run runs a command of the runtime to its end. prepare may give it more than
// /dev/null.
func (p plan) run(ctx context.Context, prepare func(*exec.Cmd), args ...string) error {
	log := filepath.Join(p.Bundle, "runtime.log")
	if _, err := os.Stat(p.Bundle); err != nil {
		log = os.DevNull
	}
	cmd := exec.CommandContext(ctx, p.Runtime, append([]string{"--root", p.State, "--log", log, "--log-format", "json"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	var said bytes.Buffer
	cmd.Stderr = &said
	if prepare != nil {
		prepare(cmd)
	}
	err := cmd.Run()
	if err == nil {
		return nil
	}
	text := lastError(log)
	if text == "" {
		text = strings.TrimSpace(said.String())
	}
	if text == "" {
		return fmt.Errorf("%s %s: %w", filepath.Base(p.Runtime), args[0], err)
	}
	return errors.New(filepath.Base(p.Runtime) + " " + args[0] + ": " + text)
}
