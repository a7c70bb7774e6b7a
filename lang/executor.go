package lang

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// The forms of an image that is a file or folder, before the path.
const (
	dockerArchive = "docker-archive:"
	ociLayout     = "oci:"
)

// registryImage is HOST:PORT/NAME:TAG@sha256:DIGEST, all but NAME optional.
var registryImage = lazyregexp.New(`^([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// imageType is a container image. A path in it is made absolute.
var imageType = Type{Name: "image: NAME:TAG, docker-archive:FILE or oci:FOLDER", decode: func(g *given) any {
	s, ok := textType.decode(g).(string)
	if !ok {
		return nil
	}
	for _, form := range []string{dockerArchive, ociLayout} {
		path, ok := strings.CutPrefix(s, form)
		switch {
		case !ok:
		case path == "" || strings.HasPrefix(path, "~"):
			return g.wrong("%q names no file. Write the path from the root or from the campaign's folder, such as %simages/server.", s, form)
		default:
			return form + absolute(g.dir, path)
		}
	}
	if !registryImage.MatchString(s) {
		hint := ""
		if filepath.IsAbs(s) || strings.HasPrefix(s, ".") {
			hint = " A file is written as docker-archive:" + s + ", an OCI layout as oci:" + s + "."
		}
		return g.wrong("%q is no image.%s Write NAME:TAG or NAME@sha256:DIGEST of a registry in small letters, docker-archive:FILE, or oci:FOLDER.", s, hint)
	}
	return s
}}

// ImagePath is the absolute path of an image that is a file or folder; "" of
// one that has a name.
func ImagePath(image string) string {
	for _, form := range []string{dockerArchive, ociLayout} {
		if path, ok := strings.CutPrefix(image, form); ok {
			return path
		}
	}
	return ""
}

// ExecutorOption is one option of a kind of executor.
type ExecutorOption struct {
	Name string
	Kind Kind // of its value
	Doc  string
	// Words are the only values; none: any.
	Words []string
}

// Takes says for people what the option's value is: "a text", or its words.
func (o ExecutorOption) Takes() string {
	if len(o.Words) > 0 {
		return oneOf(o.Words)
	}
	return kindWord[o.Kind]
}

// ExecutorKind is a kind of executor as the language knows it.
type ExecutorKind struct {
	Name string
	Doc  string
	// Container says that its tasks can have /dev/shm and ipc of their own.
	Container bool
	Options   []ExecutorOption
}

// ExecutorKinds are the labels of executor blocks, in the order in which people
// read them.
var ExecutorKinds = []ExecutorKind{
	{Name: "auto", Container: true, Doc: "docker where a daemon answers and the framework has an image, else an OCI runtime, else local, which is said aloud. Without an image: local."},
	{Name: "local", Doc: "Processes on this host; frameworks need a program."},
	{Name: "docker", Container: true, Doc: "Containers of a Docker daemon; frameworks need an image.", Options: []ExecutorOption{
		{"host", String, "Address of the daemon, as in DOCKER_HOST: unix://, tcp:// or ssh://.", nil},
		{"certs", String, "Folder with ca.pem, cert.pem and key.pem, for a tcp:// host.", nil},
		{"container", String, "Name of a container that runs already, made of the framework's image: tasks run in it, and it is left as it is.", nil},
		{"network", String, "Network of the containers, such as host or none.", nil},
		{"gpus", String, "How GPUs come into a container.", []string{"cdi", "request"}},
		{"files", String, "Whether the daemon sees this host's files; left out, the first task finds out.", []string{"shared", "copied"}},
		{"pull", String, "missing: apply pulls an image that is not there. never: that is an error.", []string{"missing", "never"}},
	}},
	{Name: "oci", Container: true, Doc: "Containers of an OCI runtime, without a daemon; frameworks need an image.", Options: []ExecutorOption{
		{"runtime", String, "The runtime: a name on PATH, or an absolute path.", nil},
		{"pull", String, "missing: apply pulls an image that is not there. never: that is an error.", []string{"missing", "never"}},
	}},
	{Name: "slurm", Doc: "Jobs of a Slurm cluster whose nodes share this host's files; frameworks need a program.", Options: []ExecutorOption{
		{"partition", String, "Partitions of the jobs, with commas between.", nil},
		{"account", String, "Account that is charged.", nil},
		{"qos", String, "Quality of service.", nil},
		{"reservation", String, "Reservation to run in.", nil},
		{"constraint", String, "Features that a node must have, such as h200&nvlink.", nil},
		{"nodelist", String, "Nodes that the job must get.", nil},
		{"exclude", String, "Nodes that it must not get.", nil},
		{"exclusive", Bool, "Whether a job has its node for itself.", nil},
		{"gres", String, "What a GPU is called there, such as gpu:h200.", nil},
		{"time", String, "Time limit in Slurm's form: minutes, H:MM:SS or D-H:MM:SS.", nil},
		{"cpus", Int, "CPUs of a task.", nil},
		{"mem", String, "Memory of a task, such as 64G.", nil},
		{"extra", String, "Further long flags of sbatch, with blanks between.", nil},
		{"poll", String, "The longest pause between two questions to Slurm, such as 60s.", nil},
		{"bin", String, "Folder of sbatch and its like, where they are not on the PATH.", nil},
		{"conf", String, "Path of slurm.conf, where it is not the host's own.", nil},
	}},
	{Name: "kubernetes", Container: true, Doc: "A word of the language; its executor comes later, and apply says so."},
}

// ExecutorKindNamed finds a kind; false if there is none.
func ExecutorKindNamed(name string) (ExecutorKind, bool) {
	i := slices.IndexFunc(ExecutorKinds, func(k ExecutorKind) bool { return k.Name == name })
	if i < 0 {
		return ExecutorKind{}, false
	}
	return ExecutorKinds[i], true
}

func executorNames() []string {
	var names []string
	for _, k := range ExecutorKinds {
		names = append(names, k.Name)
	}
	return names
}

// checkExecutor checks what a block says beside its kind.
func checkExecutor(e *Executor, p *problems) {
	kind, ok := ExecutorKindNamed(e.Type)
	if !ok || e.Type == "kubernetes" {
		return
	}
	if !kind.Container {
		if e.ShmSize > 0 && e.Type != "local" {
			p.add(cExclusive, e.Range, "%q has no containers, so that nobody could make a /dev/shm of that size. Remove shm_size.", e.Type)
		}
		if e.IPC == "private" {
			p.add(cExclusive, e.Range, "%q has no containers, so that its tasks share memory with the host. Remove ipc.", e.Type)
		}
	}
	var names []string
	for _, o := range kind.Options {
		names = append(names, o.Name)
	}
	for _, given := range e.Options {
		i := slices.Index(names, given.Name)
		switch {
		case len(names) == 0:
			p.add(cUnknownName, given.Range, "The executor %q has no options. Remove %q, or name the kind that has it: executor \"docker\" {.", e.Type, given.Name)
			continue
		case i < 0:
			p.add(cUnknownName, given.Range, "The executor %q has no option %q. %s Its options are %s.", e.Type, given.Name, didYouMean(given.Name, names), oneOf(names))
			continue
		}
		switch o := kind.Options[i]; {
		case given.Value.Kind != o.Kind:
			p.add(cWrongType, given.Range, "The option %q of %q is %s, and this is %q. %s", o.Name, e.Type, kindWord[o.Kind], given.Value.Text(), o.Doc)
		case len(o.Words) > 0 && !slices.Contains(o.Words, given.Value.Str):
			p.add(cBadValue, given.Range, "%q is none of the choices of %q. Write %s.", given.Value.Str, o.Name, oneOf(o.Words))
		case o.Kind == String && (given.Value.Str == "" || strings.ContainsFunc(given.Value.Str, func(r rune) bool { return r < ' ' }) || strings.HasPrefix(given.Value.Str, "-") && o.Name != "extra"):
			p.add(cBadValue, given.Range, "%q cannot be the value of %q: it is empty, begins with a dash or holds a control character. %s", given.Value.Str, o.Name, o.Doc)
		}
	}
}

var kindWord = map[Kind]string{String: "a text", Int: "a whole number", Float: "a number", Bool: "true or false"}
