package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// NewTask writes the runner's spec into dir and describes the task around it.
// reads are further files of the host that its steps read. Everything has the
// same path inside a container as outside, so that the spec is the same
// everywhere.
func NewTask(spec runner.Spec, dir string, h Host, reads ...string) (executors.Task, error) {
	spec.Task = executors.TaskID(filepath.Base(dir))
	if err := runner.WriteSpec(dir, spec); err != nil {
		return executors.Task{}, err
	}
	t := executors.Task{ID: spec.Task, Dir: dir, Image: h.Place.Image, StopGrace: 10 * time.Second}
	t.Process.Args = []string{h.Self, "runner", "spec.json"}
	t.Process.Cwd = dir
	t.Resources = executors.Resources{GPUs: h.GPUs, ShmSize: h.Place.ShmSize, IPCHost: h.Place.IPCHost}
	for _, name := range h.Secrets {
		if v, ok := os.LookupEnv(name); ok {
			t.Process.Env = append(t.Process.Env, name+"="+v)
		}
	}
	if filepath.IsAbs(h.Model) {
		model, err := withTargets(h.Model)
		if err != nil {
			return executors.Task{}, fmt.Errorf("finding the files of the model: %w", err)
		}
		reads = append(reads, model...)
	}
	for _, path := range append([]string{h.Self}, reads...) {
		t.Mounts = append(t.Mounts, specs.Mount{Source: path, Destination: path, Type: "bind", Options: []string{"rbind", "ro"}})
	}
	return t, nil
}

// withTargets is a path and whatever links below it point to outside of it, as
// the caches of model hubs have it. Paths come in the order of the walk.
func withTargets(path string) ([]string, error) {
	out := []string{path}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a revision that is not fetched yet: help texts need none
	}
	if err != nil {
		return nil, err
	}
	inside := func(p string) bool { return p == real || strings.HasPrefix(p, real+string(filepath.Separator)) }
	err = filepath.WalkDir(real, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		text, err := os.Readlink(p)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(text) {
			text = filepath.Join(filepath.Dir(p), text)
		}
		// A link that leads nowhere is the server's matter, and chains of links
		// are followed one by one.
		for range 40 {
			if inside(text) || slices.Contains(out, text) {
				return nil
			}
			info, err := os.Lstat(text)
			if err != nil {
				return nil
			}
			out = append(out, text)
			if info.Mode()&fs.ModeSymlink == 0 {
				return nil
			}
			next, err := os.Readlink(text)
			if err != nil {
				return err
			}
			if text = next; !filepath.IsAbs(next) {
				text = filepath.Join(filepath.Dir(out[len(out)-1]), next)
			}
		}
		return fmt.Errorf("%s: too many links", p)
	})
	return out, err
}
