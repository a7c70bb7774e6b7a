package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

// Input is one file that may be a trace.
type Input struct {
	Path  string
	Size  int64
	Rank  int          // by name, -1 when it says nothing
	Stage launch.Stage // by name, launch.None when it says nothing
	Found bool         // found in a folder: a file that is no trace is set aside, not an error
}

const maxDepth = 4 // folders below a given one that are searched

// Inputs finds the trace files of paths: files as given, folders as a profiler
// leaves them. Notes say what was set aside and why. Order: by stage, rank and
// path; a file given twice counts once.
func Inputs(paths []string) (inputs []Input, notes []string, err error) {
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			inputs = append(inputs, inputOf(p, info.Size(), false))
			continue
		}
		found, said, err := search(p)
		if err != nil {
			return nil, nil, err
		}
		if len(found) == 0 {
			return nil, nil, fmt.Errorf("no trace file (*.json, *.json.gz) in the folder %q", p)
		}
		inputs, notes = append(inputs, found...), append(notes, said...)
	}
	slices.SortStableFunc(inputs, func(a, b Input) int {
		return cmp.Or(cmp.Compare(slices.Index(launch.Stages, a.Stage), slices.Index(launch.Stages, b.Stage)),
			cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Path, b.Path))
	})
	return slices.CompactFunc(inputs, func(a, b Input) bool { return a.Path == b.Path }), notes, nil
}

func inputOf(p string, size int64, found bool) Input {
	return Input{Path: filepath.Clean(p), Size: size, Rank: profile.RankOf(p), Stage: launch.FileStage(p), Found: found}
}

// asides are the files that profilers and servers write beside traces.
var asides = map[string]string{
	"server_args.json": "the server's arguments",
	"metadata.json":    "metadata",
	"config.json":      "a model's configuration",
}

func search(dir string) (found []Input, notes []string, err error) {
	var merged []Input
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			if p != dir && (strings.HasPrefix(name, ".") || strings.Count(rel, string(filepath.Separator)) >= maxDepth) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		in := inputOf(p, info.Size(), true)
		switch {
		case asides[name] != "":
			notes = append(notes, fmt.Sprintf("Set aside %s: %s.", p, asides[name]))
		case strings.HasPrefix(name, "profiler_out") && strings.HasSuffix(name, ".txt"):
			notes = append(notes, fmt.Sprintf("Set aside %s: the profiler's own summary table.", p))
		case !strings.HasSuffix(name, ".json") && !strings.HasSuffix(name, ".json.gz"):
		case strings.HasPrefix(name, "merged-"):
			merged = append(merged, in)
		default:
			found = append(found, in)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if len(found) == 0 {
		return merged, notes, nil
	}
	for _, m := range merged {
		notes = append(notes, fmt.Sprintf("Set aside %s: merged from the files of the ranks.", m.Path))
	}
	return found, notes, nil
}

// ErrNoGPU is the error of a trace that holds no GPU work.
var ErrNoGPU = errors.New("no GPU work in the trace")
