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
	Argv    []string         `json:"argv,omitempty"`
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
	argv := t.Process.Args
	if len(argv) == 0 {
		argv = []string{e.opts.Self, "runner", filepath.Join(t.Dir, "spec.json")}
	}
	return plan{ID: t.ID, Runtime: runtime, State: filepath.Join(folder, "state"), Bundle: filepath.Join(folder, "bundles", string(t.ID)), Argv: argv}, nil
}

// prepare unpacks the image and writes the bundle. It returns the environment
// of the task.
func (e *Executor) prepare(ctx context.Context, t executors.Task, p *plan) ([]string, error) {
	i, err := image.Open(ctx, t.Image, image.Platform{})
	if err != nil {
		return nil, err
	}
	if p.Lower, err = i.Extract(ctx, filepath.Join(e.opts.Folder, "images")); err != nil {
		return nil, err
	}
	spec, err := e.spec(t)
	if err != nil {
		return nil, err
	}
	env := merged(i.Config.Env, spec.Process.Env, t.Process.Env)
	spec.Process.Env = nil
	return env, p.write(spec)
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
	if _, err := os.Stat(filepath.Join(p.State, string(p.ID))); err == nil {
		if err := p.run(ctx, nil, "delete", "--force", string(p.ID)); err != nil {
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
