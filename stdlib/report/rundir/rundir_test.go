package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sotabuild/sotabuild/stdlib/report"
)

var (
	mine   = Owner{"tiny", "one"}
	theirs = Owner{"tiny", "two"}
	day    = time.Date(2026, 11, 2, 23, 0, 0, 0, time.UTC)
)

func TestSlug(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9._-]+$`)
	for model, want := range map[string]string{
		"Qwen/Qwen3-8B": "qwen-qwen3-8b", "acme/Tiny 1.5B (fp8)": "acme-tiny-1.5b-fp8", "/models/x_y/": "models-x_y", "../../etc": "etc", "a//b": "a-b", "Ünï": "n",
	} {
		got, err := Slug(model)
		if err != nil || got != want || !form.MatchString(got) {
			t.Errorf("%q: %q, %v; want %q", model, got, err, want)
		}
	}
	for _, model := range []string{"", "..", "///", "-", strings.Repeat("x", 129)} {
		if got, err := Slug(model); err == nil {
			t.Errorf("%q was named %q", model, got)
		}
	}
}

func TestOneDirectoryForOneCampaign(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	dir, err := Locate(root, day, "Qwen/Qwen3-8B", mine)
	if err != nil || filepath.Base(dir) != "20261102_qwen-qwen3-8b_sota_humanize" {
		t.Fatalf("%s, %v", dir, err)
	}
	if _, err := Write(dir, mine, map[string][]byte{"manifest.md": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	// Another day, the same campaign: the same directory (R027).
	if again, err := Locate(root, day.AddDate(0, 0, 3), "Qwen/Qwen3-8B", mine); err != nil || again != dir {
		t.Errorf("%s, %v", again, err)
	}
	// Another campaign on the same day is told whose it is and what to set.
	var owned *OwnedError
	_, err = Locate(root, day, "Qwen/Qwen3-8B", theirs)
	if !errors.As(err, &owned) || owned.Owner != mine || !strings.Contains(err.Error(), `"tiny" (one)`) || !strings.Contains(err.Error(), "`artifacts`") {
		t.Errorf("%v", err)
	}
	// On another day it gets a directory of its own, and one with a longer slug
	// that ends in this one's is nobody's business.
	if err := os.MkdirAll(filepath.Join(root, "20261103_a_qwen-qwen3-8b_sota_humanize"), 0o755); err != nil {
		t.Fatal(err)
	}
	if other, err := Locate(root, day.AddDate(0, 0, 1), "Qwen/Qwen3-8B", theirs); err != nil || filepath.Base(other) != "20261103_qwen-qwen3-8b_sota_humanize" {
		t.Errorf("%s, %v", other, err)
	}
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{"manifest.md": []byte("ours")}
	if err := os.WriteFile(filepath.Join(dir, "manifest.md"), []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	var owned *OwnedError
	if _, err := Write(dir, mine, files); !errors.As(err, &owned) || owned.Owner != (Owner{}) {
		t.Errorf("a directory that nobody marked was taken: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(`{"campaign":"tiny","id":"two"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, mine, files); !errors.As(err, &owned) || owned.Owner != theirs {
		t.Errorf("another campaign's directory was taken: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(`{`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, mine, files); err == nil || errors.As(err, &owned) {
		t.Errorf("an owner that cannot be read is not nobody: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "manifest.md")); string(b) != "theirs" {
		t.Errorf("a file of theirs was written: %q", b)
	}
}

func TestOnlyChangesAreWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	files := map[string][]byte{"manifest.md": []byte("a"), "benchmark/summary.md": []byte("b"), "help/x.txt": nil}
	changed, err := Write(dir, mine, files)
	if d := cmp.Diff([]string{"benchmark/summary.md", "help/x.txt", "manifest.md"}, changed); d != "" || err != nil {
		t.Fatalf("%v %s", err, d)
	}
	before := stat(t, dir)
	if changed, err := Write(dir, mine, files); changed != nil || err != nil {
		t.Errorf("%v, %v; want nothing written", changed, err)
	}
	if d := cmp.Diff(before, stat(t, dir)); d != "" {
		t.Errorf("files were touched:\n%s", d)
	}
	// A file of the user's own and a changed one: one is kept, one comes back.
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.md"), []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	changed, err = Write(dir, mine, files)
	if d := cmp.Diff([]string{"manifest.md"}, changed); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "notes.txt")); string(b) != "mine" {
		t.Error("the user's file is gone")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", ".*.sotabuild"))
	if err != nil || left != nil {
		t.Errorf("temporary files are left: %v %v", left, err)
	}
}

// stat is name, inode-independent time and size of every file.
func stat(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	err := filepath.Walk(dir, func(p string, st os.FileInfo, err error) error {
		if err == nil {
			out[p] = st.ModTime()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNothingIsWrittenOutside(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := Write(dir, mine, nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"../x", "/x", "a/../../x", "", ".", "a//b", `a\b`, ownerFile, "a\x00"} {
		if _, err := Write(dir, mine, map[string][]byte{p: []byte("x")}); err == nil {
			t.Errorf("%q was written", p)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "help")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "target"), filepath.Join(dir, "manifest.md")); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, mine, map[string][]byte{"help/x": []byte("x")}); err == nil {
		t.Error("a folder that is a link to the outside was written to")
	}
	if _, err := Write(dir, mine, map[string][]byte{"manifest.md": []byte("x")}); err != nil {
		t.Errorf("a file that is a link is replaced by a file: %v", err)
	}
	if st, err := os.Lstat(filepath.Join(dir, "manifest.md")); err != nil || !st.Mode().IsRegular() {
		t.Errorf("%v, %v", st, err)
	}
	if found, _ := os.ReadDir(outside); len(found) != 0 {
		t.Errorf("outside holds %v", found)
	}
}

// A run that was killed before its directory had an owner owns nothing yet.
func TestCrashBeforeTheOwner(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".campaign.json.sotabuild"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, mine, map[string][]byte{"manifest.md": []byte("x")}); err != nil {
		t.Error(err)
	}
}

// A run that was killed while writing leaves a temporary file; the next one
// goes over it.
func TestLeftoverOfACrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := Write(dir, mine, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".manifest.md.sotabuild"), []byte("half"), 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, mine, map[string][]byte{"manifest.md": []byte("whole")}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "manifest.md")); string(b) != "whole" {
		t.Errorf("%q", b)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".manifest.md.sotabuild")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover is still there: %v", err)
	}
}

// TestFairnessFilesOfAnSGLangTarget: present for an SGLang target, and their
// absence elsewhere is no error (R030, R084).
func TestFairnessFilesOfAnSGLangTarget(t *testing.T) {
	for definition, want := range map[string]bool{"sglang": true, "vllm": false} {
		files, err := Files(report.View{Campaign: "c", Sides: []report.Side{{Name: "mine", Definition: definition, Target: true, State: report.Selected}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"benchmark/fairness/diagnostics.md", "analysis/fairness-diagnostics.md"} {
			if got := len(files[name]) > 0; got != want {
				t.Errorf("target %s: %s there %v, want %v", definition, name, got, want)
			}
		}
	}
}
