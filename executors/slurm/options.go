package slurm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// option is a setting of `executor "slurm" { options = {…} }`.
type option struct {
	name string
	// form is what a value must be, says is form for people.
	form *lazyregexp.Regexp
	says string
	// flag is the sbatch flag that the value completes; "" is handled by hand.
	flag string
}

// options are the settings, in the order in which sbatch gets them.
var options = []option{
	{"partition", names, "names with commas between, such as \"gpu,long\"", "--partition="},
	{"account", names, "the name of an account", "--account="},
	{"qos", names, "the name of a quality of service", "--qos="},
	{"reservation", names, "the name of a reservation", "--reservation="},
	{"constraint", lazyregexp.New(`^[A-Za-z0-9_.,&|*()\[\]:-]+$`), "features of a node, such as \"h200&nvlink\"", "--constraint="},
	{"nodelist", nodes, "nodes, such as \"gpu[01-04]\"", "--nodelist="},
	{"exclude", nodes, "nodes, such as \"gpu[01-04]\"", "--exclude="},
	{"exclusive", lazyregexp.New(`^(true|false)$`), "true (nobody else's job runs on the node) or false", ""},
	{"gres", lazyregexp.New(`^[A-Za-z][A-Za-z0-9_]*(:[A-Za-z0-9_.-]*[A-Za-z_.-][A-Za-z0-9_.-]*)?$`), "the generic resource that a GPU is, without a count, such as \"gpu:h200\"", ""},
	{"time", lazyregexp.New(`^([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}$`), "a time limit in Slurm's form: minutes, H:MM:SS or D-H:MM:SS", ""},
	{"cpus", lazyregexp.New(`^[1-9][0-9]{0,5}$`), "the number of CPUs of a task that names none", ""},
	{"mem", lazyregexp.New(`^[0-9]+[KMGT]?$`), "the memory of a task that names none, such as \"64G\"; 0 is all of the node", ""},
	{"extra", lazyregexp.New(`^--[a-z][a-z-]*(=\S+)?( --[a-z][a-z-]*(=\S+)?)*$`), "further long flags of sbatch with blanks between, such as \"--licenses=a --nice=10\"", ""},
	{"poll", lazyregexp.New(`^[1-9][0-9]{0,3}s$`), "the longest pause between two questions to Slurm, such as \"60s\"", ""},
	{"bin", lazyregexp.New(`^/[^\x00\n]*$`), "the folder of sbatch, squeue, sinfo, scontrol and scancel, absolute, where they are not in PATH", ""},
	{"conf", lazyregexp.New(`^/[^\x00\n]*$`), "the path of slurm.conf, absolute, where it is not the host's own", ""},
}

var (
	names = lazyregexp.New(`^[A-Za-z0-9_.,@%+-]+$`)
	nodes = lazyregexp.New(`^[A-Za-z0-9_.,\[\]-]+$`)
)

// ours are the flags that extra may not set: the executor needs them as they are.
var ours = []string{
	"--job-name", "--comment", "--chdir", "--output", "--error", "--input", "--open-mode", "--parsable", "--requeue",
	"--no-requeue", "--kill-on-invalid-dep", "--export", "--export-file", "--wrap", "--wait", "--array", "--nodes", "--ntasks",
	"--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--cpus-per-task", "--mem", "--mem-per-cpu", "--mem-per-gpu",
	"--time", "--test-only", "--clusters", "--signal", "--uid", "--gid", "--get-user-env", "--propagate", "--overcommit",
	"--partition", "--account", "--qos", "--reservation", "--constraint", "--nodelist", "--exclude", "--exclusive",
	"--quiet", "--verbose", "--version", "--help", "--usage", "--ntasks-per-node", "--tasks-per-node", "--dependency",
}

// checkOptions says all that is wrong with settings.
func checkOptions(set map[string]string) error {
	var bad []error
	for _, name := range slices.Sorted(maps.Keys(set)) {
		at := slices.IndexFunc(options, func(o option) bool { return o.name == name })
		if at < 0 {
			var names []string
			for _, o := range options {
				names = append(names, o.name)
			}
			bad = append(bad, fmt.Errorf("slurm has no option %q; there are %s", name, strings.Join(names, ", ")))
			continue
		}
		if o := options[at]; !o.form.MatchString(set[name]) {
			bad = append(bad, fmt.Errorf("slurm: %s = %q cannot be; write %s", name, set[name], o.says))
		}
	}
	for flag := range strings.FieldsSeq(set["extra"]) {
		if name, _, _ := strings.Cut(flag, "="); slices.Contains(ours, name) {
			bad = append(bad, fmt.Errorf("slurm: extra may not hold %s: there is an option for it, or the executor sets it", name))
		}
	}
	if set["bin"] != "" {
		if _, ok := proc.Tool(set["bin"] + "/sbatch"); !ok {
			bad = append(bad, fmt.Errorf("slurm: bin = %q holds no program sbatch", set["bin"]))
		}
	}
	return errors.Join(bad...)
}

// longestPause is the option poll.
func longestPause(set map[string]string) time.Duration {
	d, err := time.ParseDuration(set["poll"])
	if err != nil {
		return 15 * time.Second // no such option: its form was checked
	}
	return d
}
