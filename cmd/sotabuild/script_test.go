package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// bin is a folder with the programs, built as they are released: sotabuild
// starts itself inside tasks, which a test binary cannot do.
var bin string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// coverDir names the folder into which the programs of the scripts write what of
// the engine they reached (make cover); without it nothing is counted.
const coverDir = "SOTABUILD_COVERDIR"

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "sotabuild-cmd-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-trimpath", "-o", dir + "/"}
	if os.Getenv(coverDir) != "" {
		args = append(args, "-cover", "-coverpkg=github.com/sotabuild/sotabuild/...") // main must be counted, too, or nothing is written
	}
	cmd := exec.Command("go", append(args, "./cmd/sotabuild", "./conformance/badserve")...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	bin = dir
	return m.Run(), nil
}

// TestScript runs the stories of testdata/script. Each starts in a folder with
// the campaign of testdata/fixture, but for the files that it brings itself.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			e.Setenv("NO_COLOR", "1")
			if cover := os.Getenv(coverDir); cover != "" {
				e.Setenv("GOCOVERDIR", cover)
			}
			return fixture(e.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"await":  await,
			"edit":   edit,
			"absent": absent,
		},
		Condition:           condition,
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("SOTABUILD_UPDATE") != "",
	})
}

func fixture(dir string) error {
	err := os.CopyFS(filepath.Join(dir, "bin"), os.DirFS(bin))
	if err != nil {
		return err
	}
	if err := copyNew(filepath.Join("..", "..", "conformance", "badserve", "badserve.framework.hcl"), filepath.Join(dir, "badserve.framework.hcl")); err != nil {
		return err
	}
	for _, name := range []string{"campaign.hcl", filepath.Join("model", "config.json")} {
		if err := copyNew(filepath.Join("testdata", "fixture", name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyNew copies a file unless the script has brought its own.
func copyNew(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// exits runs a program and wants an exit code: exits CODE PROGRAM [ARG...].
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// await waits until a file of a pattern exists, and holds a text if one is
// given, at most a minute: await PATTERN [TEXT].
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await PATTERN [TEXT]")
	}
	text := strings.Join(args[1:], "")
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		for _, path := range found {
			if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
				return
			}
		}
	}
	ts.Fatalf("nothing like %s came within a minute", strings.Join(args, " "))
}

// edit replaces the only place of a text in a file: edit FILE OLD NEW.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if n := strings.Count(text, args[1]); n != 1 {
		ts.Fatalf("%s holds %q %d times, want once", args[0], args[1], n)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, args[1], args[2], 1)), 0o644))
}

// absent wants a text in no file below a folder: absent TEXT FOLDER.
func absent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: absent TEXT FOLDER")
	}
	files := 0
	ts.Check(filepath.WalkDir(ts.MkAbs(args[1]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), args[0]) {
			err = fmt.Errorf("%s holds it", path)
		}
		return err
	}))
	if files == 0 {
		ts.Fatalf("%s holds no file", args[1])
	}
}

func condition(name string) (bool, error) {
	if name == "root" {
		return os.Getuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// TestEveryCommandHasAScript keeps the stories complete: each command is run by
// one of them.
func TestEveryCommandHasAScript(t *testing.T) {
	var text strings.Builder
	scripts, err := filepath.Glob(filepath.Join("testdata", "script", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		b, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	words := strings.Fields(text.String())
	for _, c := range (&app{}).root(nil).Commands() {
		if !c.Hidden && !slices.Contains(words, c.Name()) {
			t.Errorf("no script runs %q", c.Name())
		}
	}
}
