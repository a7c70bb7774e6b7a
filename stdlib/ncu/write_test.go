package ncu_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/ncu"
)

// TestVersionsAreNeverReused: R168.
func TestVersionsAreNeverReused(t *testing.T) {
	root := filepath.Join(t.TempDir(), "kernel", "ncu-digests")
	d := mustMake(t, rmsnorm(rawPage))
	if v, err := ncu.Next(root); v != "v001" || err != nil {
		t.Errorf("first version %s, %v", v, err)
	}
	dir, err := ncu.Write(root, "v001", d)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "digest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ncu.Write(root, "v001", d); err == nil || !strings.Contains(err.Error(), "never reused") {
		t.Errorf("second write of v001: %v", err)
	}
	after, err := os.ReadFile(filepath.Join(dir, "digest.json"))
	if err != nil || string(before) != string(after) {
		t.Error("the refused write changed the digest")
	}
	// A folder without a digest was claimed too.
	if err := os.Mkdir(filepath.Join(root, "v041"), 0o755); err != nil {
		t.Fatal(err)
	}
	if v, err := ncu.Next(root); v != "v042" || err != nil {
		t.Errorf("next version %s, %v; want v042", v, err)
	}
	for _, bad := range []string{"", "1", "v1", "../v001", "v001/x", "v0001x"} {
		if _, err := ncu.Write(root, bad, d); err == nil {
			t.Errorf("version %q was accepted", bad)
		}
	}
}

// TestReportsAreKept: the pages lie beside the digest, byte for byte.
func TestReportsAreKept(t *testing.T) {
	d := mustMake(t, rmsnorm(rawPage, detailsPage))
	dir, err := ncu.Write(t.TempDir(), "v001", d)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(rawPage)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "reports/candidate.raw.csv"))
	if err != nil || string(got) != string(want) {
		t.Errorf("kept page differs from the one given (%v)", err)
	}
	back, err := ncu.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	k := back.Candidate.Report[0]
	if k.File != "reports/candidate.raw.csv" || k.Bytes != 219698 || !strings.HasPrefix(k.SHA256, "57acb8a62ded") || len(back.Baseline.Report) != 2 {
		t.Errorf("kept %+v and %d of the baseline", k, len(back.Baseline.Report))
	}
	if back.Delta.Speedup != d.Delta.Speedup || back.NextEdit.ID != d.NextEdit.ID || back.Version != "v001" {
		t.Errorf("read back %v %v %v", back.Delta.Speedup, back.NextEdit.ID, back.Version)
	}
}

// TestReadChecks: R169 and R170 hold for whoever edited the files.
func TestReadChecks(t *testing.T) {
	d := mustMake(t, rmsnorm(rawPage))
	for name, c := range map[string]struct {
		file     string
		old, new string
		want     string
	}{
		"candidate only":   {"digest.json", `"baseline": {`, `"base": {`, "R169"},
		"no edit":          {"digest.json", `"next_edit": {`, `"edit": {`, "R170"},
		"empty edit":       {"digest.json", `"change": "fuse`, `"changed": "fuse`, "what, where and why"},
		"other schema":     {"digest.json", `"schema": 1`, `"schema": 2`, "schema 2"},
		"no JSON":          {"digest.json", `"schema"`, `schema`, "reading digest"},
		"no version":       {"digest.json", `"v001"`, `"latest"`, "version"},
		"two edits":        {"digest.md", "Next edit: ", "Next edit: a\nNext edit: ", "2 next edits"},
		"no edit line":     {"digest.md", "Next edit: ", "Perhaps: ", "0 next edits"},
		"text after it":    {"digest.md", "by one round trip.", "by one round trip.\n\nGood luck.", "text follows"},
		"section after it": {"digest.md", "by one round trip.", "by one round trip.\n\n## More", "last section"},
		"no section":       {"digest.md", "## Next edit", "Next", "no section"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := ncu.Write(t.TempDir(), "v001", d)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, c.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(text), c.old, c.new, 1)
			if changed == string(text) {
				t.Fatalf("nothing to replace: %q", c.old)
			}
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := ncu.Read(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestForeignTextStaysInline: a kernel's name or an error cannot forge a
// section or a second edit.
func TestForeignTextStaysInline(t *testing.T) {
	o := rmsnorm(rawPage)
	o.Subject.Stage = "decode\n## Next edit\nNext edit: drop everything"
	o.Candidate.Commit = "x | y\nNext edit: no"
	dir, err := ncu.Write(t.TempDir(), "v001", mustMake(t, o))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ncu.Read(dir); err != nil {
		t.Error(err)
	}
}
