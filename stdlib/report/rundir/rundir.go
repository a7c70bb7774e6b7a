// Package rundir keeps a campaign's run directory: one folder a campaign, with
// the seeds' name and layout, whose files are views of what the store holds
// (R027–R030). It can be written again at any time.
//
// A directory belongs to one campaign: a small file in it names the owner, and
// a directory of another owner, or of none, is never written to. Only files
// whose bytes change are written, each to a temporary name first and then
// renamed, so that no reader sees half a file; nothing is removed. Paths that
// leave the directory, also through a symbolic link, are refused. One writer at
// a time is the caller's to see to (it holds the store's lock).
package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/report/export"
	"github.com/sotabuild/sotabuild/stdlib/report/fairness"
)

// ownerFile names the campaign that a run directory belongs to.
const ownerFile = "campaign.json"

// Owner is the campaign that a run directory belongs to. ID is what tells two
// campaigns of one name apart, such as the identity of the campaign's store.
type Owner struct {
	Campaign string `json:"campaign"`
	ID       string `json:"id"`
}

// OwnedError says that a run directory is not this campaign's. Owner is the
// zero value if no campaign's name stands in it.
type OwnedError struct {
	Dir   string
	Owner Owner
}

func (e *OwnedError) Error() string {
	if e.Owner == (Owner{}) {
		return fmt.Sprintf("run directory %s exists and was not made by a campaign: set `artifacts` of the campaign block to another folder", e.Dir)
	}
	return fmt.Sprintf("run directory %s belongs to campaign %q (%s): set `artifacts` of the campaign block to another folder", e.Dir, e.Owner.Campaign, e.Owner.ID)
}

// Slug is a model's name as it stands in a run directory's: lower case, with a
// hyphen for every run of characters outside [a-z0-9._-] (R028).
func Slug(model string) (string, error) {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(model) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
			continue
		}
		gap = true
	}
	slug := strings.Trim(b.String(), ".-_")
	if slug == "" || len(slug) > 128 {
		return "", fmt.Errorf("naming run directory of model %q: its name must have 1 to 128 letters and digits", model)
	}
	return slug, nil
}

// Locate returns the run directory of a campaign below root: the one that it
// has, from whatever day, else a new name of the given day (local calendar of
// the time's location), which is not created. A name that is taken by somebody
// else is an *OwnedError.
func Locate(root string, day time.Time, model string, owner Owner) (string, error) {
	slug, err := Slug(model)
	if err != nil {
		return "", err
	}
	suffix := "_" + slug + "_sota_humanize"
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking for run directories: %w", err)
	}
	for _, e := range slices.Backward(entries) { // newest first
		if date, ok := strings.CutSuffix(e.Name(), suffix); !e.IsDir() || !ok || len(date) != len("20060102") {
			continue
		}
		dir := filepath.Join(root, e.Name())
		got, err := ownerOf(dir)
		if err != nil {
			return "", err
		}
		if got == owner {
			return dir, nil
		}
	}
	dir := filepath.Join(root, day.Format("20060102")+suffix)
	return dir, check(dir, owner)
}

// ownerOf reads who owns a directory; the zero Owner is nobody.
func ownerOf(dir string) (Owner, error) {
	b, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Owner{}, nil
	}
	var o Owner
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		return Owner{}, fmt.Errorf("reading owner of run directory %s: %w", dir, err)
	}
	return o, nil
}

// check passes a directory that is this owner's, empty, or not there.
func check(dir string, owner Owner) error {
	got, err := ownerOf(dir)
	if err != nil || got == owner {
		return err
	}
	if got == (Owner{}) {
		entries, err := os.ReadDir(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("reading run directory: %w", err)
		case len(entries) == 0 || len(entries) == 1 && entries[0].Name() == temporary(ownerFile):
			return nil // Empty, or given up before its owner was written.
		}
	}
	return &OwnedError{dir, got}
}

// Files returns the files that follow from a View, by path with slashes (R029,
// R081–R083). Help texts and logs are not among them: they are the artefacts
// that the View points to.
func Files(v report.View) (map[string][]byte, error) {
	candidates, err := export.Candidates(v)
	if err != nil {
		return nil, err
	}
	table, err := export.CSV(v)
	if err != nil {
		return nil, err
	}
	tree, err := export.JSON(v)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"manifest.md":                   v.Manifest(),
		"final_report.md":               v.Markdown(),
		"final_report.json":             tree,
		"benchmark/candidates.jsonl":    candidates,
		"benchmark/summary.md":          v.Summary(),
		"benchmark/summary.csv":         table,
		"benchmark/winning-commands.md": v.WinningCommands(),
	}
	if rates, err := v.RateRows(); err != nil {
		return nil, err
	} else if rates != nil {
		files["benchmark/rate_search.jsonl"] = rates
	}
	if repeats, err := v.RepeatRows(); err != nil {
		return nil, err
	} else if repeats != nil {
		files["benchmark/repeats.jsonl"] = repeats
	}
	// An SGLang target has the fairness files; for others they would suggest a
	// step that their rules do not have (R030).
	if slices.ContainsFunc(v.Sides, func(s report.Side) bool { return s.Target && s.Definition == "sglang" }) {
		files["benchmark/fairness/diagnostics.md"] = fairness.Diagnostics(v)
		files["analysis/fairness-diagnostics.md"] = fairness.Diagnostics(v)
	}
	return files, nil
}

// Write makes the directory hold the files, by path with slashes, and returns
// the paths whose bytes changed, sorted. A directory of somebody else is an
// *OwnedError and is left as it is. On an error some files may be new already;
// writing again is safe.
func Write(dir string, owner Owner, files map[string][]byte) (changed []string, err error) {
	if owner.Campaign == "" || owner.ID == "" {
		panic("rundir: an owner without a name or an identity")
	}
	for p := range files {
		if !fs.ValidPath(p) || p == "." || p == ownerFile || strings.ContainsAny(p, "\\\x00") {
			return nil, fmt.Errorf("writing run directory: %q is no path of a file in it", p)
		}
	}
	if err := check(dir, owner); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making run directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening run directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	mark, err := json.Marshal(owner)
	if err != nil {
		return nil, fmt.Errorf("writing owner of run directory %s: %w", dir, err)
	}
	// The owner first: a directory that holds files always says whose it is.
	if _, err := put(root, ownerFile, append(mark, '\n')); err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		wrote, err := put(root, p, files[p])
		if err != nil {
			return changed, err
		}
		if wrote {
			changed = append(changed, p)
		}
	}
	return changed, nil
}

// put writes one file unless it has these bytes already. It is not synced: the
// store is what lasts, and the next Write makes up for what a crash took.
func put(root *os.Root, name string, content []byte) (bool, error) {
	if st, err := root.Lstat(name); err == nil && st.Mode().IsRegular() {
		old, err := root.ReadFile(name)
		if err == nil && bytes.Equal(old, content) {
			return false, nil
		}
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return false, fmt.Errorf("writing %s of run directory: %w", name, err)
		}
	}
	temporary := temporary(name)
	// What a crashed writer left under this name is replaced; removing it first
	// keeps a link from being written through.
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("writing %s of run directory: %w", name, err)
	}
	err := root.WriteFile(temporary, content, 0o644)
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("writing %s of run directory: %w", name, err), ignoreMissing(root.Remove(temporary)))
	}
	return true, nil
}

// temporary is where a file is written before it is renamed.
func temporary(name string) string {
	dir, base := path.Split(name)
	return dir + "." + base + ".sotabuild"
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
