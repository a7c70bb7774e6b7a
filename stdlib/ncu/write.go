package ncu

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

var versionName = lazyregexp.New(`^v([0-9]{3,6})$`)

// Next is the version after the highest folder of root, "v001" where there is
// none. A folder counts even if no digest came to stand in it: versions are
// never reused (R168).
func Next(root string) (string, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("listing digests: %w", err)
	}
	highest := 0
	for _, e := range entries {
		if m := versionName.FindStringSubmatch(e.Name()); m != nil {
			n, _ := strconv.Atoi(m[1])
			highest = max(highest, n)
		}
	}
	return fmt.Sprintf("v%03d", highest+1), nil
}

// Write writes d into root/version and returns that folder. The folder must
// not exist: a version is never overwritten (R168). Reports and pages go to
// reports/ beside the digest; with a blocker there is also a file "blocker".
func Write(root, version string, d Digest) (string, error) {
	if !versionName.MatchString(version) {
		return "", fmt.Errorf("writing digest: version %q must be v and at least three digits, like v001", version)
	}
	d.Version = version
	md := d.Markdown()
	if err := check(d, md); err != nil {
		return "", fmt.Errorf("writing digest %s: %w", version, err)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // kernel names are full of < and >
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return "", fmt.Errorf("writing digest %s: %w", version, err)
	}
	files := []file{{"digest.md", []byte(md)}, {"digest.json", text.Bytes()}}
	if b := d.Blocker; b != nil {
		files = append([]file{{"blocker", fmt.Appendf(nil, "%s (%s): %s\n%s\n", b.Code, b.Side, b.Detail, b.Remedy)}}, files...)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("writing digest %s: %w", version, err)
	}
	dir := filepath.Join(root, version)
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("writing digest %s: %s exists, and versions are never reused; take the next one", version, dir)
	} else if err != nil {
		return "", fmt.Errorf("writing digest %s: %w", version, err)
	}
	if len(d.files) > 0 {
		if err := os.Mkdir(filepath.Join(dir, "reports"), 0o755); err != nil {
			return "", fmt.Errorf("writing digest %s: %w", version, err)
		}
	}
	for _, f := range d.files {
		files = append([]file{{filepath.Join("reports", f.name), f.data}}, files...)
	}
	// digest.json comes last: a folder without it is an unfinished digest.
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, 0o644); err != nil {
			return "", fmt.Errorf("writing digest %s: %w", version, err)
		}
	}
	return dir, nil
}

func kept(f file) Kept {
	sum := sha256.Sum256(f.data)
	return Kept{File: "reports/" + f.name, Bytes: len(f.data), SHA256: hex.EncodeToString(sum[:])}
}

// Read reads the digest in a folder and checks it: both sides (R169), exactly
// one next edit or a blocker, as the last thing in digest.md (R170).
func Read(dir string) (Digest, error) {
	text, err := os.ReadFile(filepath.Join(dir, "digest.json"))
	if err != nil {
		return Digest{}, fmt.Errorf("reading digest: %w", err)
	}
	var d Digest
	if err := json.Unmarshal(text, &d); err != nil {
		return Digest{}, fmt.Errorf("reading digest %s: %w", dir, err)
	}
	md, err := os.ReadFile(filepath.Join(dir, "digest.md"))
	if err != nil {
		return Digest{}, fmt.Errorf("reading digest: %w", err)
	}
	if err := check(d, string(md)); err != nil {
		return Digest{}, fmt.Errorf("reading digest %s: %w", dir, err)
	}
	return d, nil
}

const (
	editHeading = "## Next edit"
	editLine    = "Next edit: "
	stopHeading = "## Blocker"
)

func check(d Digest, md string) error {
	edits := 0
	lines := strings.Split(strings.TrimRight(md, "\n"), "\n")
	for _, l := range lines {
		if strings.HasPrefix(l, editLine) {
			edits++
		}
	}
	last := slices.IndexFunc(lines, func(l string) bool { return l == editHeading || l == stopHeading && d.NextEdit == nil })
	switch {
	case d.Schema != schema:
		return fmt.Errorf("schema %d, this program reads %d", d.Schema, schema)
	case !versionName.MatchString(d.Version):
		return fmt.Errorf("version %q is none", d.Version)
	case d.Blocker == nil && (d.Baseline == nil || d.Candidate == nil || d.Delta == nil):
		return errors.New("a digest compares baseline with candidate (R169), and one of them is missing")
	case d.Blocker == nil && d.NextEdit == nil:
		return errors.New("a digest ends with exactly one next edit (R170), and there is none")
	case d.NextEdit != nil && (d.NextEdit.Change == "" || d.NextEdit.Why == "" || d.NextEdit.Symbol == "" && d.NextEdit.File == ""):
		return errors.New("the next edit must say what, where and why (R170)")
	case d.NextEdit != nil && edits != 1:
		return fmt.Errorf("digest.md has %d next edits, want exactly one (R170)", edits)
	case d.NextEdit == nil && edits != 0:
		return errors.New("digest.md has a next edit that digest.json has not")
	case last < 0:
		return errors.New("digest.md has no section of its next edit or blocker")
	case slices.ContainsFunc(lines[last+1:], func(l string) bool { return strings.HasPrefix(l, "#") }):
		return errors.New("the next edit or blocker must be the last section of digest.md (R170)")
	case d.NextEdit != nil && !strings.HasPrefix(lines[len(lines)-1], editLine):
		return errors.New("text follows the next edit in digest.md (R170)")
	}
	return nil
}

// Place writes the files of a packed digest into root/version, as Write does
// the digest itself, and returns that folder. Names are those of a digest's
// folder.
func Place(root, version string, files map[string][]byte) (string, error) {
	var d Digest
	if err := json.Unmarshal(files["digest.json"], &d); err != nil {
		return "", fmt.Errorf("placing digest %s: reading digest.json: %w", version, err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if base, ok := strings.CutPrefix(name, "reports/"); ok {
			if !filepath.IsLocal(base) || strings.ContainsAny(base, `/\`) {
				return "", fmt.Errorf("placing digest %s: %q is no name of a report", version, name)
			}
			d.files = append(d.files, file{base, files[name]})
		}
	}
	return Write(root, version, d)
}
