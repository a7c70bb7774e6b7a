package campaign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/sched"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/help"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// askTimeout bounds a question to a program. A real vLLM takes up to a minute
// to print its help.
const askTimeout = 5 * time.Minute

// AskSpec is a question to a program about itself: its help or its version.
type AskSpec struct {
	Software key.Digest        `key:"software"`
	Image    string            `key:"image"` // identity; "" when Software is known
	Command  []string          `key:"arg"`   // with {program} standing for the program
	Stderr   bool              `key:"stderr"`
	Pattern  string            `key:"pattern"` // "" keeps the whole text
	Env      map[string]string `key:"env"`
	Host     Host              `key:"-"`
}

// Host is where things lie where the task runs; none of it is part of a key.
type Host struct {
	Self    string // the sotabuild binary
	Program string // on the host; "" where only an image is known
	Tree    string // what identifies the program, if not its file
	Model   string // path or id, as the server's command line takes it
	// Tokenizer is its folder on this host; "" where it is the model's own or a hub's.
	Tokenizer string
	Port      int // 0: chosen by the runner
	Label     string
	Secrets   []string
	GPUs      []string // ids, exclusive to the task
	// StartTimeout bounds the server's start; zero is the runner's own bound.
	StartTimeout time.Duration
	Place        Place
	ImageID      key.Digest // identity of Place.Image
}

func newAskSpec(c *lang.Campaign, f Facts, fw lang.Framework, command []string, stderr bool, pattern string) AskSpec {
	sw := f.Software[fw.Label]
	return AskSpec{Software: sw.Digest, Image: imageOf(sw), Command: command, Stderr: stderr, Pattern: pattern,
		Env: fw.Environment(), Host: hostOf(c, f, fw)}
}

// imageOf is the image as identity, only where nothing better is known.
func imageOf(s Software) string {
	if !s.Digest.IsZero() || s.Image.IsZero() {
		return ""
	}
	return s.Image.String()
}

func hostOf(c *lang.Campaign, f Facts, fw lang.Framework) Host {
	model := cmp.Or(c.Model.Path, f.Revision.Folder, c.Model.ID)
	sw := f.Software[fw.Label]
	h := Host{Self: f.Self, Program: fw.Program, Tree: fw.Tree, Model: model, Port: fw.Port, Label: fw.Label, Secrets: c.Run.Secrets,
		StartTimeout: fw.StartTimeout, Place: sw.Place, ImageID: sw.Image}
	if TokenizerApart(c) {
		h.Tokenizer = c.Model.Tokenizer
	}
	if c.GPUs != nil {
		h.GPUs = c.GPUs.IDs
	}
	return h
}

// TokenizerApart reports whether the tokenizer is a path of its own. A path is no
// part of a key, its content is.
func TokenizerApart(c *lang.Campaign) bool {
	return filepath.IsAbs(c.Model.Tokenizer) && c.Model.Tokenizer != c.Model.Path
}

// program is what {program} stands for.
func (h Host) program() string {
	if h.Place.Program != "" {
		return h.Place.Program
	}
	return h.Program
}

// observed is what a record says of the place, beside its key.
func (h Host) observed() []cache.Observed {
	if h.Place.Executor == "" {
		return nil
	}
	out := []cache.Observed{{Name: "executor", Value: h.Place.Executor}}
	if h.Place.Image != "" {
		out = append(out, cache.Observed{Name: "image", Value: h.Place.Image}, cache.Observed{Name: "image_id", Value: h.ImageID.String()})
	}
	return out
}

// DefaultPath is the PATH of every process that no image or definition gives one.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment is what every process of a task gets beside the framework's own
// declared variables. Nothing of the host's environment is passed on.
func Environment(declared map[string]string) []string { return environment(nil, declared) }

// environment lays the declared variables over what every process gets, and
// that over the variables of an image.
func environment(image []string, declared map[string]string) []string {
	env := slices.Clone(image)
	set := func(name, value string) {
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		env = append(env, name+"="+value)
	}
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }) {
		set("PATH", DefaultPath)
	}
	for _, kv := range []struct{ name, value string }{{"HOME", "{out}"}, {"LANG", "C.UTF-8"}, {"LC_ALL", "C.UTF-8"}, {"TZ", "UTC"}, {"COLUMNS", "200"}} {
		set(kv.name, kv.value)
	}
	for _, k := range sortedKeys(declared) {
		set(k, declared[k])
	}
	return env
}

// askTask runs one question without any server.
func askTask(jobs []compile.Job, dir string) (executors.Task, error) {
	spec := runner.Spec{Version: runner.SpecVersion}
	for _, j := range jobs {
		s := j.Spec.(AskSpec)
		spec.Secrets = s.Host.Secrets
		spec.Steps = append(spec.Steps, runner.Step{
			ID:       sched.StepID(j.Key),
			Argv:     fill(s.Command, map[string]string{"program": s.Host.program(), "model": s.Host.Model}, nil),
			Env:      environment(s.Host.Place.Env, s.Env),
			Deadline: askTimeout,
			Stdout:   "stdout.txt", Stderr: "stderr.txt",
			AnyExit: true,
		})
	}
	return NewTask(spec, dir, jobs[0].Spec.(AskSpec).Host)
}

// asked reads what the program printed.
func asked(s AskSpec, step compile.StepResult) (string, *cache.Outcome) {
	if step.Class != "" {
		o := failure(askClass(step), step.Reason)
		return "", &o
	}
	name := "stdout.txt"
	if s.Stderr {
		name = "stderr.txt"
	}
	b, err := os.ReadFile(filepath.Join(step.Dir, name))
	if err != nil {
		o := failure(result.NoHelp, err.Error())
		return "", &o
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// askClass is the class of a question that was not answered. What the runner
// calls the client is the program itself here.
func askClass(step compile.StepResult) result.Class {
	if step.Class != string(executors.ClassClientFailed) {
		return result.Class(step.Class)
	}
	if rec, err := runner.ReadStep(step.Dir); err == nil && rec.Exit == nil && rec.Signal == "" {
		return executors.ClassStartFailed
	}
	return result.NoHelp
}

// exitWords says how a step's program ended, for reasons.
func exitWords(step compile.StepResult) string {
	rec, err := runner.ReadStep(step.Dir)
	switch {
	case err != nil:
		return "its end is not recorded"
	case rec.Exit != nil:
		return fmt.Sprintf("exit code %d", *rec.Exit)
	}
	return "signal " + rec.Signal
}

func collectHelp(j compile.Job, step compile.StepResult) compile.Result {
	s := j.Spec.(AskSpec)
	text, bad := asked(s, step)
	if bad != nil {
		return compile.Result{Outcome: *bad}
	}
	if err := help.Valid(text); err != nil {
		how := exitWords(step)
		if strings.TrimSpace(text) == "" {
			how += "; it printed " + quoteHead(text, step.Dir)
		}
		return compile.Result{Outcome: failure(result.NoHelp, fmt.Sprintf("%s: %v (%s); %s", s.asked(), err, how, noServer))}
	}
	return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: []compile.Value{{Name: "text", Bytes: []byte(text)}}, Observed: s.Host.observed()}
}

// noServer is what to do about a program that does not answer as a server of its
// definition does.
const noServer = `if that is not the server, write program = "PATH" of the one that is; if it is, use = "NAME" of the definition that fits it, or mend the question in a definition of your own`

// asked is the question as it was put.
func (s AskSpec) asked() string {
	return strings.Join(fill(s.Command, map[string]string{"program": s.Host.program(), "model": s.Host.Model}, nil), " ")
}

// quoteHead is the first line of a text, or of the program's errors where it
// printed nothing.
func quoteHead(text, dir string) string {
	if strings.TrimSpace(text) == "" {
		if b, err := os.ReadFile(filepath.Join(dir, "stderr.txt")); err == nil {
			text = string(b)
		}
	}
	text = strings.TrimSpace(text)
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > 120 {
		text = strings.ToValidUTF8(text[:120], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}

func collectVersion(j compile.Job, step compile.StepResult) compile.Result {
	s := j.Spec.(AskSpec)
	out, bad := asked(s, step)
	if bad != nil {
		return compile.Result{Outcome: *bad}
	}
	errText, err := os.ReadFile(filepath.Join(step.Dir, "stderr.txt"))
	if err != nil && !os.IsNotExist(err) {
		return compile.Result{Outcome: failure(result.NoHelp, err.Error())}
	}
	// Some programs print their version to stderr (llama-server does).
	all := out + "\n" + string(errText)
	re, err := regexp.Compile(s.Pattern)
	if err != nil {
		return compile.Result{Outcome: failure(result.NoHelp, err.Error())}
	}
	m := re.FindStringSubmatch(all)
	if len(m) < 2 {
		return compile.Result{Outcome: failure(result.NoHelp,
			fmt.Sprintf("%s: no version like %q in what it printed (%s), %s; %s", s.asked(), s.Pattern, exitWords(step), quoteHead(all, step.Dir), noServer))}
	}
	return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: []compile.Value{{Name: "version", Bytes: []byte(m[1])}}, Observed: s.Host.observed()}
}

// CheckSpec is one candidate's flags as they would be passed, by name: their
// order changes no check, and a plan names the flag that changed.
type CheckSpec struct {
	Flags map[string]passed `key:"flag"`
}

// passed is a flag's value on the command line.
type passed struct {
	text string
	bare bool
}

// KeyFact implements key.Factor.
func (p passed) KeyFact() (key.Type, string) {
	if p.bare {
		return key.Bool, "true"
	}
	return key.Text, p.text
}

func newCheckSpec(given []help.Given) CheckSpec {
	s := CheckSpec{Flags: map[string]passed{}}
	for _, g := range given {
		s.Flags[g.Name] = passed{g.Value, g.Bare}
	}
	return s
}

// given is the flags again, by name.
func (s CheckSpec) given() []help.Given {
	var out []help.Given
	for _, name := range slices.Sorted(maps.Keys(s.Flags)) {
		out = append(out, help.Given{Name: name, Value: s.Flags[name].text, Bare: s.Flags[name].bare})
	}
	return out
}

// Checked is the output of a check node.
type Checked struct {
	Validated []string       `json:"validated"` // flags found in the program's own help
	Findings  []help.Finding `json:"findings,omitempty"`
}

// check looks every flag up in the help snapshot.
func check(j compile.Job) compile.Result {
	text, err := inputBytes(j, "help")
	if err != nil {
		return compile.Result{Outcome: failure(result.NoHelp, err.Error())}
	}
	var out Checked
	given := j.Spec.(CheckSpec).given()
	out.Findings = help.Check(help.Parse(string(text)), given)
	if len(out.Findings) > 0 {
		f := out.Findings[0]
		return compile.Result{Outcome: failure(f.Class, f.Reason+hint(f.Hint))}
	}
	for _, g := range given {
		out.Validated = append(out.Validated, g.Name)
	}
	return ok("flags", out)
}

// ok is a finished node with one JSON output.
func ok(name string, v any) compile.Result {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("campaign: output " + name + " cannot be written as JSON: " + err.Error())
	}
	return compile.Result{Outcome: cache.Outcome{State: cache.OK}, Outputs: []compile.Value{{Name: name, Bytes: append(b, '\n')}}}
}

// failure is a failed outcome whose state and keeping follow the class table.
func failure(class result.Class, reason string) cache.Outcome {
	o := cache.Outcome{State: cache.Failed, Class: string(class), Reason: reason}
	if row, ok := result.Lookup(class); ok {
		o.Keep = row.Keep
		if row.Reject {
			o.State = cache.Rejected
		}
	}
	return o
}

func inputBytes(j compile.Job, name string) ([]byte, error) {
	for _, in := range j.Inputs {
		if in.Name == name {
			return j.Objects.Bytes(in.Digest)
		}
	}
	panic("campaign: node " + j.Addr + " has no input " + name)
}
