package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Need is what a campaign asks of the host; the zero value asks for nothing.
type Need struct {
	Store   string // a folder that is there or will be
	GPUs    []string
	ShmSize int64 // bytes
}

const gib = 1 << 30

// Bounds of the checks. A run directory with its logs is well below lowDisk;
// one connection a request and one log a process need few files, but a client
// with 1,000 streams at once needs some thousands.
const (
	noDisk  = 1 * gib
	lowDisk = 10 * gib
	files   = 4096
	skew    = 100 * time.Millisecond
)

// Host are the checks of the host itself.
func Host(n Need) []Check {
	return []Check{
		{"disk", "room for the store, and for shared memory", func(context.Context) []Row { return []Row{Disk(n.Store, n.Store), shm(n.ShmSize)} }},
		{"files", "open files a process may have", func(context.Context) []Row { return []Row{openFiles(), locked()} }},
		{"clock", "a clock that is steady and right", func(context.Context) []Row { return []Row{source("/sys"), clock()} }},
		{"cgroups", "control groups, which hold what a task starts together", func(context.Context) []Row { return []Row{cgroups("/sys/fs/cgroup")} }},
		{"gpus", "the driver and the cards", func(ctx context.Context) []Row { return gpus(ctx, n.GPUs) }},
	}
}

// Disk looks at the file system that holds a folder, or will. The row has the
// name given.
func Disk(name, dir string) Row {
	at := dir
	var st unix.Statfs_t
	for {
		err := unix.Statfs(at, &st)
		if err == nil {
			break
		}
		if parent := filepath.Dir(at); errors.Is(err, unix.ENOENT) && parent != at {
			at = parent
			continue
		}
		return Row{Name: name, State: Unknown, Text: err.Error(), Help: "give another folder with --store"}
	}
	free := int64(st.Bavail) * st.Bsize
	r := Row{Name: name, State: OK, Text: size(free) + " free"}
	switch {
	case unix.Access(at, unix.W_OK) != nil:
		r.State, r.Text, r.Help = Bad, "it cannot be written", "give another folder with --store"
	case free < noDisk:
		r.State, r.Help = Bad, "make room: sotabuild cache gc --max-age 30d"
	case free < lowDisk:
		r.State, r.Help = Warning, "logs and traces may fill it: sotabuild cache gc --max-age 30d"
	}
	return r
}

func shm(need int64) Row {
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil {
		return Row{Name: "/dev/shm", State: Unknown, Text: err.Error(), Help: "mount -t tmpfs tmpfs /dev/shm"}
	}
	have := int64(st.Blocks) * st.Bsize
	if have < need {
		return Row{Name: "/dev/shm", State: Warning, Text: fmt.Sprintf("%s, and the campaign's shm_size is %s", size(have), size(need)),
			Help: fmt.Sprintf("containers have their own; for local: mount -o remount,size=%d /dev/shm", need)}
	}
	return Row{Name: "/dev/shm", State: OK, Text: size(have)}
}

func openFiles() Row {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return Row{Name: "nofile", State: Unknown, Text: err.Error(), Help: "ulimit -n"}
	}
	// Go raises the soft limit to the hard one for us; what we start has it too.
	if l.Max < files {
		return Row{Name: "nofile", State: Warning, Text: fmt.Sprintf("%d at most; a client with 1,000 streams needs %d", l.Max, files), Help: fmt.Sprintf("as root: ulimit -Hn %d", files)}
	}
	return Row{Name: "nofile", State: OK, Text: fmt.Sprintf("%d", l.Max)}
}

func locked() Row {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return Row{Name: "memlock", State: Unknown, Text: err.Error(), Help: "ulimit -l"}
	}
	if l.Max == unix.RLIM_INFINITY {
		return Row{Name: "memlock", State: OK, Text: "unlimited"}
	}
	return Row{Name: "memlock", State: OK, Text: size(int64(l.Max)) + "; servers that lock host memory (RDMA, pinned pools) need more"}
}

// source says what the kernel tells the time by. One that takes a system call
// disturbs what is measured with it.
func source(sys string) Row {
	b, err := os.ReadFile(filepath.Join(sys, "devices/system/clocksource/clocksource0/current_clocksource"))
	name := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return Row{Name: "source", State: Unknown, Text: err.Error(), Help: "look for clocksource in the kernel's messages: dmesg"}
	case name == "tsc" || name == "kvm-clock" || name == "arch_sys_counter" || name == "hyperv_clocksource_tsc_page":
		return Row{Name: "source", State: OK, Text: name}
	}
	return Row{Name: "source", State: Warning, Text: name + " needs a system call each time it is read", Help: "boot with clocksource=tsc where the processor's is stable"}
}

// clock asks the kernel whether somebody keeps it right.
func clock() Row {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return Row{Name: "offset", State: Unknown, Text: err.Error(), Help: "timedatectl status"}
	}
	unit := time.Microsecond
	if t.Status&unix.STA_NANO != 0 {
		unit = time.Nanosecond
	}
	off := time.Duration(t.Offset) * unit
	switch {
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return Row{Name: "offset", State: Warning, Text: "nobody keeps the clock right; spans are measured by the monotonic clock, so only times of day may be wrong", Help: "start chronyd or systemd-timesyncd"}
	case off.Abs() > skew:
		return Row{Name: "offset", State: Warning, Text: off.String(), Help: "chronyc makestep"}
	}
	return Row{Name: "offset", State: OK, Text: off.String()}
}

// cgroups says which hierarchy there is and whether we may make groups in it.
func cgroups(root string) Row {
	for _, dir := range []string{root, filepath.Join(root, "unified")} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			continue
		}
		if unix.Access(dir, unix.W_OK) != nil {
			continue
		}
		return Row{State: OK, Text: "version 2 at " + dir + ", ours to use"}
	}
	if _, err := os.Stat(root); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Row{State: Unknown, Text: err.Error(), Help: "mount -t cgroup2 cgroup2 " + root}
	}
	return Row{State: Warning, Text: "none of version 2 that we may use: what a killed supervisor leaves is found by its marks alone", Help: "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes sotabuild …"}
}

// gpus lists the cards. Without any it is only bad where a campaign has some.
func gpus(ctx context.Context, want []string) []Row {
	absent := func(text, help string) []Row {
		r := Row{State: Absent, Text: text, Help: help}
		if len(want) > 0 {
			r.State = Bad
		}
		return []Row{r}
	}
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return absent("there is no nvidia-smi", "install NVIDIA's driver; a campaign without a gpus block needs none")
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // It hangs on a sick card.
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--query-gpu=index,uuid,name,memory.total,driver_version", "--format=csv,noheader").CombinedOutput()
	if err != nil {
		return absent(fmt.Sprintf("nvidia-smi: %v: %s", err, strings.Join(strings.Fields(string(out)), " ")), "nvidia-smi -q; look for Xid in dmesg")
	}
	var rows []Row
	var ids []string
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), ", ")
		if len(f) != 5 {
			continue
		}
		ids = append(ids, f[0], f[1])
		rows = append(rows, Row{Name: f[0], State: OK, Text: strings.Join(f[1:], ", ")})
	}
	for _, id := range want {
		if !slices.Contains(ids, id) {
			rows = append(rows, Row{Name: id, State: Bad, Text: "the campaign names it, and it is not here", Help: "nvidia-smi -L lists what is here; change ids in the gpus block"})
		}
	}
	return rows
}

// size is bytes for people, in powers of 1024.
func size(n int64) string {
	if n >= gib {
		return fmt.Sprintf("%.1f GiB", float64(n)/gib)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
