package profile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/trace"
)

// Import is a trace that was made apart: files and folders as a profiler leaves
// them.
type Import struct {
	Stage Stage
	Paths []string
	// Said: a person says that the trace is of the stage, so one that names no
	// step is taken whole.
	Said    bool
	Mapping []string // the same of a mapping trace; none without
}

// ImportSpec is the files of one trace.
type ImportSpec struct {
	Stage Stage  `key:"stage"`
	Role  Role   `key:"role"`
	Host  bool   `key:"host"`
	Said  bool   `key:"said"`
	Files []File `key:"file"`
}

// File is a file that may be the trace. Its name is part of the key: ranks and
// stages stand in it.
type File struct {
	Path   string     `key:"-"`
	Name   string     `key:"name"`
	Digest key.Digest `key:"digest"`
}

// ImportKind is the row of the node that takes a trace from files (R140).
var ImportKind = &compile.Kind{
	Name: "imported_profile", Version: 1, Purity: compile.Pure,
	Outputs: []string{"summary", "trace"},
	Func:    importTrace, Policy: policy,
}

// DeclareImported declares profiles that were made apart, and their tables.
// host says that the campaign has no GPUs; digest is a file's content. The
// error says which path holds no trace.
func DeclareImported(s Subject, list []Import, host bool, digest func(path string) (key.Digest, error)) ([]compile.Decl, error) {
	var decls []compile.Decl
	for _, i := range list {
		for _, role := range []Role{Formal, Mapping} {
			paths := i.Paths
			if role == Mapping {
				paths = i.Mapping
			}
			if len(paths) == 0 {
				continue
			}
			files, err := filesOf(paths, digest)
			if err != nil {
				return nil, fmt.Errorf("the %s trace of %q: %w", role, s.Framework.Label, err)
			}
			decls = append(decls, compile.Decl{
				Addr: s.Addr(i.Stage, role), Kind: ImportKind, Block: "framework." + s.Framework.Label,
				Spec: ImportSpec{Stage: i.Stage, Role: role, Host: host, Said: i.Said, Files: files},
			})
		}
	}
	for _, i := range list {
		decls = append(decls, s.tables(i.Stage, len(i.Mapping) > 0))
	}
	return decls, nil
}

func filesOf(paths []string, digest func(string) (key.Digest, error)) ([]File, error) {
	inputs, _, err := trace.Inputs(paths)
	if err != nil {
		return nil, err
	}
	var out []File
	for _, in := range inputs {
		path, err := filepath.Abs(in.Path)
		if err != nil {
			return nil, err
		}
		d, err := digest(path)
		if err != nil {
			return nil, err
		}
		out = append(out, File{path, filepath.Base(path), d})
	}
	return out, nil
}

func importTrace(ctx context.Context, j compile.Job) compile.Result {
	s := j.Spec.(ImportSpec)
	sum, f, err := s.take(ctx)
	var v *verdict
	switch {
	case errors.As(err, &v):
		return compile.Result{Outcome: failed(v.class, v.reason)}
	case err != nil:
		return compile.Result{Outcome: failed(executors.ClassClientFailed, err.Error())}
	}
	b, err := json.MarshalIndent(sum, "", "  ")
	if err != nil {
		return compile.Result{Outcome: failed(executors.ClassClientFailed, err.Error())}
	}
	return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Warnings: sum.Warnings, Outputs: []compile.Value{
		{Name: "summary", Bytes: append(b, '\n')}, {Name: "trace", File: f.Path}}}
}

// take chooses one rank's file and checks that it is what was declared.
func (s ImportSpec) take(ctx context.Context) (Summary, File, error) {
	sum := Summary{Stage: s.Stage, Role: s.Role, Imported: true, Rank: -1}
	paths := make([]string, len(s.Files))
	for i, f := range s.Files {
		paths[i] = f.Path
	}
	inputs, _, err := trace.Inputs(paths)
	if err != nil {
		return sum, File{}, err
	}
	path := inputs[0].Path
	if s.Role == Mapping {
		// A capture holds no work of the stage; whether its launches fit is seen
		// when they are joined.
		sum.Trace, sum.Rank = filepath.Base(path), inputs[0].Rank
	} else if path, err = (want{s.Stage, s.Host, s.Said}).choose(ctx, inputs, &sum); err != nil {
		return sum, File{}, err
	}
	for _, f := range s.Files {
		if f.Path == path {
			return sum, f, f.unchanged()
		}
	}
	return sum, File{}, fmt.Errorf("%q is none of the files that were named", path)
}

// unchanged checks that the file still is what the key says.
func (f File) unchanged() error {
	r, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return fmt.Errorf("reading %q: %w", f.Path, err)
	}
	if key.Digest(h.Sum(nil)) != f.Digest {
		return wrong(executors.ClassChanged, "%q changed while it was imported; import it again", f.Path)
	}
	return nil
}
