package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// compiledSite is a pair of frameworks whose program is a script of the site's own.
func compiledSite(t *testing.T, edit func(campaign string) string) *site {
	s := newSite(t, pair("none"))
	s.serves("1")
	s.write("campaign.hcl", edit(strings.ReplaceAll(s.read("campaign.hcl"), filepath.Join(bin, "badserve"), "badserve")))
	return s
}

// serves makes the site's program another one, with a help of its own.
func (s *site) serves(version string) {
	s.t.Helper()
	text := "#!/bin/sh\ncase \"$*\" in *--help*) echo \"version " + version + "\";; esac\nexec " + filepath.Join(bin, "badserve") + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(s.dir, "badserve"), []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// same plans as things are, and without a compiled form.
func (s *site) same(what string, args ...string) {
	s.t.Helper()
	args = append([]string{"plan"}, args...)
	kept := s.run(args...)
	if err := os.RemoveAll(filepath.Join(s.dir, ".sotabuild", "compiled")); err != nil {
		s.t.Fatal(err)
	}
	if scratch := s.run(args...); kept.code != scratch.code || kept.out != scratch.out || kept.err != scratch.err {
		s.t.Errorf("%s: plan ends with %d and says\n%s%s\nand without a compiled form with %d and\n%s%s", what, kept.code, kept.out, kept.err, scratch.code, scratch.out, scratch.err)
	}
}

// TestVariablesAreText: JSON would make one text of all bytes that are no UTF-8,
// and with it one plan of two.
func TestVariablesAreText(t *testing.T) {
	t.Parallel()
	s := compiledSite(t, func(c string) string {
		return strings.Replace(c, "search {", "env = { MARK = var.mark }\n  search {", 1) + "variable \"mark\" {\n  default = \"\"\n}\n"
	})
	for _, command := range []string{"plan", "validate", "apply"} {
		if r := s.must(7, command, "--var", "mark=\xff"); !strings.Contains(r.err, `--var mark is "\xff", which is no text in UTF-8`) {
			t.Errorf("%s says %s", command, r.err)
		}
	}
	s.must(0, "plan", "--var", "mark=é")
	s.same("after a variable is another text", "--var", "mark=è")
}

// TestCompiledPlanLooksAtNothingElse: what is wrong with an answer that this plan
// does not need is not said.
func TestCompiledPlanLooksAtNothingElse(t *testing.T) {
	t.Parallel()
	s := compiledSite(t, func(c string) string { return c })
	s.must(0, "apply", "--target", "help.good.server")
	s.serves("2")
	s.must(0, "apply", "--target", "help.good.server")
	s.serves("1")
	s.must(0, "plan")
	s.serves("2")
	objects, err := filepath.Glob(filepath.Join(s.dir, ".sotabuild/cas/*/*"))
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, path := range objects {
		if b, err := os.ReadFile(path); err == nil && bytes.HasPrefix(b, []byte("version 1\n")) {
			removed++
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if removed == 0 {
		t.Fatal("there is no help of the first program")
	}
	s.same("after the help of a program that is gone was lost")
}

// TestCompiledPlanWhereFilesCannotBeLookedFor: a path that cannot be looked at is
// not one where nothing is.
func TestCompiledPlanWhereFilesCannotBeLookedFor(t *testing.T) {
	t.Parallel()
	s := compiledSite(t, func(c string) string { return strings.Replace(c, "max_context  = 1024", "vocab = [0, 512]", 1) })
	if err := os.RemoveAll(filepath.Join(s.dir, "model")); err != nil {
		t.Fatal(err)
	}
	s.write("model/weights.bin", "x")
	s.must(0, "plan")
	if err := os.RemoveAll(filepath.Join(s.dir, "model")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("model", filepath.Join(s.dir, "model")); err != nil {
		t.Fatal(err)
	}
	s.same("after the model became a link to itself", "--refresh=false")
}

// TestWhatSavesTimeCostsNoError: without the files that a store keeps to save
// time a plan is made, so with ones that cannot be used too, and that is said.
func TestWhatSavesTimeCostsNoError(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"a folder":         func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to itself": func(path string) error { return os.Symlink(filepath.Base(path), path) },
		"a pipe":           func(path string) error { return unix.Mkfifo(path, 0o600) },
		"not to be read": func(path string) error {
			if os.Geteuid() == 0 {
				return os.Symlink("campaign/x", path) // below a file: root may read all else
			}
			return os.WriteFile(path, nil, 0)
		},
	} {
		for _, file := range []string{"compiled", "facts", "files"} {
			s := compiledSite(t, func(c string) string { return c })
			s.must(0, "plan")
			path := filepath.Join(s.dir, ".sotabuild", file)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			s.write(".sotabuild/campaign", "x")
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			r := s.run("plan", "--refresh=false")
			if r.code != 0 || !strings.Contains(r.out, "Plan: ") || !strings.Contains(r.err, "warning: ") || !strings.Contains(r.err, "it only saves time") {
				t.Errorf("where %s is %s, plan ends with %d:\n%s%s", file, name, r.code, r.out, r.err)
			}
		}
	}
}
