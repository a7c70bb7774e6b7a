package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// Names of the folder's contract.
const (
	SpecFile    = "spec.json"
	OutcomeFile = "outcome.json"
	exitFile    = "exit.json"
	stepFile    = "step.json"
	upFile      = "up.json"
	begunFile   = "begun"
)

// WriteSpec writes dir/spec.json by rename. A spec that Main would refuse is
// an error, and nothing is written. It is read once, when the task starts, so
// after a power cut it may be empty.
func WriteSpec(dir string, s Spec) error {
	if err := s.Check(); err != nil {
		return err
	}
	return replaceJSON(filepath.Join(dir, SpecFile), s, unsynced)
}

// ReadSpec reads and checks a spec. Unknown fields are refused: a misspelled
// deadline must not become no deadline.
func ReadSpec(path string) (Spec, error) {
	var s Spec
	if err := readJSON(path, &s); err != nil {
		return Spec{}, err
	}
	return s, s.Check()
}

// ReadStep reads the record of a finished step from the step's folder. An
// error that is os.ErrNotExist means that the step has not finished.
func ReadStep(dir string) (StepRecord, error) {
	var r StepRecord
	err := readJSON(filepath.Join(dir, stepFile), &r)
	return r, err
}

// ReadExit reads the task's last word from the task's folder. An error that is
// os.ErrNotExist means that the runner has not ended, or was killed.
func ReadExit(dir string) (ExitRecord, error) {
	var r ExitRecord
	err := readUnsynced(filepath.Join(dir, exitFile), &r)
	return r, err
}

// ReadUp reads the records of the servers as they came up, in the order of
// starting. An error that is os.ErrNotExist means that they are not up yet, or
// never were.
func ReadUp(dir string) ([]ProcessRecord, error) {
	var r []ProcessRecord
	err := readUnsynced(filepath.Join(dir, upFile), &r)
	return r, err
}

// WriteUp says that all servers are healthy. Like WriteExit it does not wait
// for the disk: after a power cut no server of the task is up.
func WriteUp(dir string, r []ProcessRecord) error {
	return replaceJSON(filepath.Join(dir, upFile), r, unsynced)
}

// WriteStep writes a step's record into the step's folder: this is what a later
// engine takes a finished step from. When it returns nil the file is whole, in
// place and on the disk.
func WriteStep(dir string, r StepRecord) error {
	path := filepath.Join(dir, stepFile)
	if err := replaceJSON(path, r, (*os.File).Sync); err != nil {
		return err
	}
	return syncDir(dir)
}

// WriteExit writes the task's last word into the task's folder. When it returns
// nil the file is whole and in place. A power cut in the seconds after may take
// it back, which reads as a task that was killed: what its steps came to stands
// in their own records.
func WriteExit(dir string, r ExitRecord) error {
	return replaceJSON(filepath.Join(dir, exitFile), r, unsynced)
}

// ReadOutcome reads a client's verdict from the step's folder. An error that is
// os.ErrNotExist means that it gave none.
func ReadOutcome(dir string) (StepOutcome, error) {
	var o StepOutcome
	err := readJSON(filepath.Join(dir, OutcomeFile), &o)
	return o, err
}

// CheckOutputs says whether all declared outputs stand in the step's folder as
// regular files that are not empty, and brings them to the disk: the record
// that follows vouches for them.
func CheckOutputs(dir string, names []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the step's folder: %w", err)
	}
	defer root.Close()
	for _, name := range names {
		info, err := root.Lstat(name)
		if err != nil {
			return fmt.Errorf("output %s is missing: %w", name, err)
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("output %s is no regular file: %s", name, info.Mode().Type())
		}
		if info.Size() == 0 {
			return fmt.Errorf("output %s is empty", name)
		}
		file, err := root.Open(name)
		if err != nil {
			return fmt.Errorf("output %s cannot be read: %w", name, err)
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return fmt.Errorf("output %s does not reach the disk: %w", name, err)
		}
	}
	return nil
}

// limitJSON bounds what we read: a record is small, anything larger is not one.
const limitJSON = 16 << 20

func readJSON(path string, v any) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Base(path), err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > limitJSON {
		return fmt.Errorf("reading %s: it is not a regular file of at most %d bytes", path, limitJSON)
	}
	d := json.NewDecoder(io.LimitReader(f, limitJSON))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("reading %s: there is something after its end", path)
	}
	return nil
}

// unsynced leaves the writing to the system: after a power cut the file may be
// empty.
func unsynced(*os.File) error { return nil }

// readUnsynced reads an empty file as one that is not there.
func readUnsynced(path string, v any) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return fmt.Errorf("reading %s: it is empty, as after a power cut: %w", path, os.ErrNotExist)
	}
	return readJSON(path, v)
}

// replaceJSON writes a file by rename after sync.
func replaceJSON(path string, v any, sync func(*os.File) error) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, sync(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

var (
	wordStep = lazyregexp.New(`^[a-z0-9-]+$`)
	wordRole = lazyregexp.New(`^[a-z][a-z0-9_-]*$`)
	wordEnv  = lazyregexp.New(`^[^=\x00]+$`)
	wordPort = lazyregexp.New(`\{port:([^}]*)\}`)
)

// A bound in a pattern would be multiplied out at the start of each task.
const maxStep, maxRole = 100, 41

func isRole(s string) bool { return len(s) <= maxRole && wordRole.MatchString(s) }

// Check says everything that is wrong with a spec; nil if it can be run.
func (s Spec) Check() error {
	c := checker{spec: s}
	if s.Version != SpecVersion {
		c.bad("version is %d; this runner knows version %d", s.Version, SpecVersion)
	}
	if !s.Task.Valid() {
		c.bad("task %q is not made of 1 to 63 of a-z, 0-9 and -", s.Task)
	}
	if len(s.Processes)+len(s.Steps) == 0 {
		c.bad("there is nothing to do: no processes and no steps")
	}
	for _, d := range []int64{int64(s.Deadlines.Start), int64(s.Deadlines.Stop), int64(s.Deadlines.Total)} {
		if d < 0 {
			c.bad("a deadline is negative")
		}
	}
	if s.LogLimit < 0 {
		c.bad("log_limit is negative")
	}
	for i, name := range s.Secrets {
		if !wordEnv.MatchString(name) || slices.Contains(s.Secrets[:i], name) {
			c.bad("secret %q is no name of a variable, or stands twice", name)
		}
	}
	c.processes()
	c.endpoint()
	c.steps()
	for i, p := range s.Probes {
		if !isRole(p.Name) || slices.ContainsFunc(s.Probes[:i], func(o Probe) bool { return o.Name == p.Name }) {
			c.bad("probe %q has a bad name, or stands twice", p.Name)
		}
		if len(p.Argv) == 0 || p.Every < 0 {
			c.bad("probe %q needs argv, and every_ns ≥ 0", p.Name)
		}
	}
	return errors.Join(c.problems...)
}

type checker struct {
	spec     Spec
	problems []error
}

func (c *checker) bad(form string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf("spec: "+form, args...))
}

func (c *checker) processes() {
	for i, p := range c.spec.Processes {
		if !isRole(p.Role) || slices.ContainsFunc(c.spec.Processes[:i], func(o Process) bool { return o.Role == p.Role }) {
			c.bad("role %q is not a lower-case word, or stands twice", p.Role)
		}
		if p.Count < 1 || p.Count > 1000 {
			c.bad("process %s: count is %d; write 1 to 1000", p.Role, p.Count)
		}
		if p.Port < 0 || p.Port > 65535 || p.Port > 0 && p.Count > 1 {
			c.bad("process %s: port %d is out of range, or fixed for more than one instance", p.Role, p.Port)
		}
		if !strings.HasPrefix(p.Health.Path, "/") || p.Health.Identity.Path != "" && !strings.HasPrefix(p.Health.Identity.Path, "/") {
			c.bad("process %s: a health or identity path does not start with /; write for example /health", p.Role)
		}
		if (p.Health.Identity.Path == "") != (p.Health.Identity.Contains == "") {
			c.bad("process %s: identity needs both path and contains", p.Role)
		}
		if p.Health.Every < 0 || p.Stop.First < 0 || p.Stop.Second < 0 {
			c.bad("process %s: a duration is negative", p.Role)
		}
		for _, f := range p.Failures {
			if _, err := regexp.Compile(f.Match); err != nil || f.Class == "" {
				c.bad("process %s: failure %q is no regular expression, or has no class", p.Role, f.Match)
			}
		}
		c.command("process "+p.Role, p.Argv, p.Env, p.Dir)
	}
	if _, err := Waves(c.spec.Processes); err != nil {
		c.bad("%w", err)
	}
}

func (c *checker) endpoint() {
	e := c.spec.Endpoint
	if e.Role != "" && e.URL != "" {
		c.bad("the endpoint has both a role and a url; write one")
	}
	if e.Role != "" && !c.has(e.Role) {
		c.bad("the endpoint's role %q is no process", e.Role)
	}
	if e.URL != "" && !strings.HasPrefix(e.URL, "http://") && !strings.HasPrefix(e.URL, "https://") {
		c.bad("the endpoint's url %q does not start with http:// or https://", e.URL)
	}
}

func (c *checker) steps() {
	for i, s := range c.spec.Steps {
		if len(s.ID) > maxStep || !wordStep.MatchString(s.ID) || s.ID == "runner" || slices.ContainsFunc(c.spec.Steps[:i], func(o Step) bool { return o.ID == s.ID }) {
			c.bad("step %q is not made of a-z, 0-9 and -, is called runner, or stands twice", s.ID)
		}
		if s.Deadline <= 0 {
			c.bad("step %s has no deadline; write deadline_ns", s.ID)
		}
		for _, name := range s.Outputs {
			if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
				c.bad("step %s: output %q is not a clean path inside the step's folder", s.ID, name)
			}
		}
		for _, name := range []string{s.Stdout, s.Stderr} {
			if name != "" && (filepath.Base(name) != name || strings.HasPrefix(name, ".") || name == stepFile || name == OutcomeFile || name == begunFile) {
				c.bad("step %s: %q cannot be captured into; write a plain file name", s.ID, name)
			}
		}
		c.command("step "+s.ID, s.Argv, s.Env, s.Dir)
		if c.spec.Endpoint == (Endpoint{}) && strings.Contains(strings.Join(append(s.Argv, s.Env...), "\n"), "{url}") {
			c.bad("step %s uses {url}, but there is no endpoint", s.ID)
		}
	}
}

// command checks what processes and steps have in common.
func (c *checker) command(who string, argv, env []string, dir string) {
	if len(argv) == 0 || argv[0] == "" {
		c.bad("%s has no argv", who)
	}
	if dir != "" && !filepath.IsAbs(dir) {
		c.bad("%s: dir %q is not absolute", who, dir)
	}
	seen := map[string]bool{executors.EnvTask: true}
	for _, name := range c.spec.Secrets {
		seen[name] = true
	}
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || !wordEnv.MatchString(name) || seen[name] {
			c.bad("%s: the variable %q is not NAME=value, stands twice, or is set by the runner itself", who, name)
		}
		seen[name] = true
	}
	all := append(slices.Clone(argv), env...)
	for _, text := range all {
		if bytes.IndexByte([]byte(text), 0) >= 0 {
			c.bad("%s: a word of argv or env holds a zero byte", who)
		}
	}
	for _, m := range wordPort.FindAllStringSubmatch(strings.Join(all, "\n"), -1) {
		if !c.instance(m[1]) {
			c.bad("%s: {port:%s} names no instance; write {port:ROLE.N}", who, m[1])
		}
	}
}

// instance says whether name is ROLE.N of a process.
func (c *checker) instance(name string) bool {
	return slices.ContainsFunc(c.spec.Processes, func(p Process) bool {
		n, err := strconv.Atoi(strings.TrimPrefix(name, p.Role+"."))
		return err == nil && n >= 0 && n < p.Count && name == fmt.Sprintf("%s.%d", p.Role, n)
	})
}

func (c *checker) has(role string) bool {
	return slices.ContainsFunc(c.spec.Processes, func(p Process) bool { return p.Role == role })
}

// Waves sorts roles so that each comes after what it names in After: all roles
// of a wave can start together.
func Waves(list []Process) ([][]Process, error) {
	var out [][]Process
	done := map[string]bool{}
	for left := list; len(left) > 0; {
		var wave, rest []Process
		for _, p := range left {
			if slices.ContainsFunc(p.After, func(role string) bool { return !done[role] }) {
				rest = append(rest, p)
			} else {
				wave = append(wave, p)
			}
		}
		if len(wave) == 0 {
			return nil, fmt.Errorf("process %s starts after something unknown, or after itself: %q", rest[0].Role, rest[0].After)
		}
		for _, p := range wave {
			done[p.Role] = true
		}
		out, left = append(out, wave), rest
	}
	return out, nil
}
