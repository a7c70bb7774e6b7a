// Package executor is the conformance suite of executors: one list of cases
// that every executor passes, or says by name why it cannot. Run runs it, Main
// is the TestMain of a package that does, and Table is what stands in
// docs/executors.md.
//
// The suite knows executors by their contract only; what it has to make and to
// look at outside of it (a daemon that is restarted, a stranger's container) a
// Fixture does. Tasks are the program in actor, built once.
package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sotabuild/sotabuild/executors"
)

// Fixture is one executor under the suite.
type Fixture struct {
	// Name is a word: the column of the table, and the part that
	// SOTABUILD_REQUIRE requires.
	Name string
	// Missing says why this machine cannot run it, or "".
	Missing func() string
	// New makes an executor as a process that has just started would: what
	// another one has started it knows from outside only. tasks is the folder
	// that holds the tasks' folders.
	New func(tasks string) (executors.Executor, error)
	// Image is what tasks run in; "" is no image.
	Image string
	// Lifeline says that tasks end with the engine (DESIGN 11.4): after its
	// death the actor, which holds no lifeline, is ended by the next engine.
	Lifeline bool
	// Cannot names the cases that the executor cannot pass, each with why.
	Cannot map[string]string
	// Adds are the variables that the place puts into every environment.
	Adds []string
	// GPUs are the ids of a pool of two; nil is {"0", "1"}.
	GPUs []string
	// GPUEnv is the variable by which the place says which GPU it gave to a
	// task. "" leaves the choice to the engine's pool.
	GPUEnv string
	// Restart makes an executor whose daemon or controller may die, and a
	// function that kills it and starts it again. Needed unless Cannot names
	// DaemonRestart.
	Restart func(t *testing.T, tasks string) (executors.Executor, func())
	// Stranger makes something that is not ours and looks as if it were, and
	// returns a function that says whether it still runs; it is removed with
	// the test.
	Stranger func(t *testing.T) (lives func() bool)
	// Put makes an empty file in a running task's folder; nil is where the task
	// sees Task.Dir itself.
	Put func(t *testing.T, id executors.TaskID, dir, name string)
	// Left names what the place still holds of a reaped task (a container, a
	// job). nil holds nothing but processes, which the suite finds itself.
	Left func(t *testing.T, id executors.TaskID) []string
}

// bench is one fixture at work.
type bench struct {
	Fixture
	t     *testing.T
	tasks string
}

// actor is the program, and report what came of each case.
var (
	actor   string
	reports struct {
		sync.Mutex
		lines map[string]string // "fixture case"
	}
)

// Main runs the tests of a package that runs these fixtures. It builds the
// actor, is the engine that the suite kills, and writes what came of the cases
// to the file that SOTABUILD_TABLE names.
func Main(m *testing.M, all ...Fixture) int {
	if len(os.Args) == 4 && os.Args[1] == "engine" {
		if err := engine(all, os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "engine:", err)
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "sotabuild-actor-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		actor = filepath.Join(dir, "actor")
		build := exec.Command("go", "build", "-trimpath", "-o", actor, "github.com/sotabuild/sotabuild/conformance/executor/actor")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, failed := build.CombinedOutput(); failed != nil {
			err = fmt.Errorf("building the actor: %w\n%s", failed, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if path := os.Getenv("SOTABUILD_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(ran(all)), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// engine starts the task of a folder, writes its handle down and waits. It
// waits first for the file "go" where there is one called "hold".
func engine(all []Fixture, name, dir string) error {
	i := slices.IndexFunc(all, func(f Fixture) bool { return f.Name == name })
	if i < 0 {
		return fmt.Errorf("no fixture %q", name)
	}
	e, err := all[i].New(filepath.Dir(dir))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(dir + ".json")
	if err != nil {
		return err
	}
	var task executors.Task
	if err := json.Unmarshal(text, &task); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	h, err := e.Start(context.Background(), task)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		return err
	}
	_, err = e.Wait(context.Background(), h)
	return err
}

// Run runs every case over one executor. What it cannot is skipped with the
// reason; an executor that is missing is skipped, or fails where it is required.
func Run(t *testing.T, f Fixture) {
	if why := f.Missing(); why != "" {
		if slices.Contains(strings.Split(os.Getenv("SOTABUILD_REQUIRE"), ","), f.Name) {
			t.Fatalf("%s is required here and missing: %s", f.Name, why)
		}
		note(f.Name, "", "absent: "+why)
		t.Skipf("SKIPPED, %s is not on this machine: %s", f.Name, why)
	}
	for name := range f.Cannot {
		if !slices.ContainsFunc(cases, func(c testCase) bool { return c.name == name }) {
			t.Errorf("%s cannot %s, which is no case", f.Name, name)
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if why := f.Cannot[c.name]; why != "" {
				note(f.Name, c.name, "cannot")
				t.Skipf("%s cannot: %s", f.Name, why)
			}
			t.Parallel()
			t.Cleanup(func() {
				word := "ok"
				if t.Failed() {
					word = "FAILED"
				}
				note(f.Name, c.name, word)
			})
			b := &bench{Fixture: f, t: t, tasks: filepath.Join(t.TempDir(), "tasks")}
			if err := os.Mkdir(b.tasks, 0o700); err != nil {
				t.Fatal(err)
			}
			c.run(b)
		})
	}
}

func note(fixture, name, word string) {
	reports.Lock()
	defer reports.Unlock()
	if reports.lines == nil {
		reports.lines = map[string]string{}
	}
	reports.lines[fixture+" "+name] = word
}

// Table is the table of cases and executors for the documents: what each
// executor passes (✓) and, as notes, why it cannot.
func Table(all []Fixture) string {
	return table(all, func(f Fixture, c testCase) (string, string) {
		if why := f.Cannot[c.name]; why != "" {
			return "–", why
		}
		return "✓", ""
	})
}

// ran is the same table of what came of the cases just now.
func ran(all []Fixture) string {
	reports.Lock()
	defer reports.Unlock()
	return table(all, func(f Fixture, c testCase) (string, string) {
		if why, absent := reports.lines[f.Name+" "]; absent {
			return "absent", strings.TrimPrefix(why, "absent: ")
		}
		switch word := reports.lines[f.Name+" "+c.name]; word {
		case "cannot":
			return "–", f.Cannot[c.name]
		case "":
			return "not run", ""
		default:
			return word, ""
		}
	})
}

func table(all []Fixture, cell func(Fixture, testCase) (word, why string)) string {
	var b strings.Builder
	var notes []string
	b.WriteString("| case | what it wants |")
	for _, f := range all {
		b.WriteString(" " + f.Name + " |")
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(all)) + "\n")
	for _, c := range cases {
		fmt.Fprintf(&b, "| %s | %s |", c.name, c.wants)
		for _, f := range all {
			word, why := cell(f, c)
			if why != "" {
				why = f.Name + ": " + why
				i := slices.Index(notes, why)
				if i < 0 {
					i, notes = len(notes), append(notes, why)
				}
				word = fmt.Sprintf("%s (%d)", word, i+1)
			}
			b.WriteString(" " + word + " |")
		}
		b.WriteByte('\n')
	}
	for i, why := range notes {
		fmt.Fprintf(&b, "\n%d. %s", i+1, why)
	}
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}
