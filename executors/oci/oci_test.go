package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/executors/supervisor"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case WatchCommand:
			os.Exit(Watch(os.Args[2]))
		case EnterCommand:
			os.Exit(Enter(os.Args[2:]))
		case "runner":
			os.Exit(supervisor.Main(os.Args[2]))
		case "engine":
			engine(os.Args[2])
		}
	}
	os.Exit(m.Run())
}

// self is a static program that has our commands: this one, where it was built
// without cgo as make does, else a new sotabuild.
var self = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil || static(path) == nil {
		return path, err
	}
	dir, err := os.MkdirTemp("", "oci-test-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "sotabuild")
	cmd := exec.Command("go", "build", "-o", program, "../../cmd/sotabuild")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w: %s", err, out)
	}
	return program, nil
})

// missing says what these tests lack here; "" when all is there. Where
// SOTABUILD_REQUIRE names runc the test fails.
func missing(t *testing.T) (why string) {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	switch {
	case os.Geteuid() != 0:
		why = "containers without a daemon need root"
	case err != nil || static(busybox) != nil:
		why = "there is no static busybox; install busybox-static"
	default:
		if _, err := exec.LookPath("runc"); err != nil {
			why = "runc is not installed"
		}
	}
	if why != "" && slices.Contains(strings.Split(os.Getenv("SOTABUILD_REQUIRE"), ","), "runc") {
		t.Fatalf("runc is required here: %s", why)
	}
	return why
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is an executor with an image of busybox.
type rig struct {
	*Executor
	t     *testing.T
	root  string
	image string
}

func newRig(t *testing.T, change ...func(*Options)) rig {
	t.Helper()
	if why := missing(t); why != "" {
		t.Skip(why)
	}
	t.Parallel()
	program, err := self()
	must(t, err)
	busybox, err := exec.LookPath("busybox")
	must(t, err)
	root := t.TempDir()
	files := map[string]image.File{"/bin/busybox": {Source: busybox}, "/tmp": {}, "/etc/greeting": {Data: []byte("from the image\n")},
		"/bin/data": {Data: []byte("no program")}, "/bin/orphan": {Data: []byte("#!/no/such/interpreter\n"), Mode: 0o755}, "/bin/text": {Data: []byte("neither\n"), Mode: 0o755}}
	for _, name := range []string{"sh", "cat", "sleep", "echo", "env", "tail", "ls", "dd", "setsid", "seq", "id", "df", "mkdir", "ln", "head", "wc", "nc", "ip", "touch", "ulimit", "tr"} {
		files["/bin/"+name] = image.File{Link: "busybox"}
	}
	i, err := image.Build(files, image.Config{Env: []string{"PATH=/bin", "FROM_IMAGE=yes"}, User: "1234", Entrypoint: []string{"/bin/data"}}, image.Platform{})
	must(t, err)
	must(t, i.WriteArchive(filepath.Join(root, "busybox.tar"), "busybox:1"))
	o := Options{Self: program, Folder: filepath.Join(root, "oci"), Runtime: "runc", Roots: []string{filepath.Join(root, "tasks")}}
	for _, c := range change {
		c(&o)
	}
	r := rig{New(o), t, root, "docker-archive:" + filepath.Join(root, "busybox.tar")}
	t.Cleanup(r.nothingLeft)
	return r
}

// task makes a task that runs a program of the image.
func (r rig) task(argv ...string) executors.Task {
	r.t.Helper()
	id := executors.TaskID(fmt.Sprintf("oci-test-%d", time.Now().UnixNano()))
	t := executors.Task{ID: id, Dir: filepath.Join(r.root, "tasks", string(id)), Image: r.image, Process: specs.Process{Args: argv},
		StopGrace: 5 * time.Second, Labels: map[string]string{executors.LabelRun: "run-1", executors.LabelTask: string(id)}}
	must(r.t, os.MkdirAll(t.Dir, 0o700))
	return t
}

func (r rig) sh(script string) executors.Task { return r.task("/bin/sh", "-c", script) }

// nothingLeft: no process, no control group, no mount, no file of a container.
func (r rig) nothingLeft() {
	all, err := proc.List()
	must(r.t, err)
	tasks, _ := os.ReadDir(filepath.Join(r.root, "tasks"))
	for _, d := range tasks {
		for _, p := range proc.Marked(all, executors.EnvTask+"="+d.Name()) {
			r.t.Errorf("left behind: %s", proc.CommandLine(p.Pid))
			p.Signal(unix.SIGKILL)
		}
		for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/*/*/*/", "/sys/fs/cgroup/"} {
			if found, _ := filepath.Glob(pattern + executors.CgroupName(executors.TaskID(d.Name())) + "*"); len(found) > 0 {
				r.t.Errorf("left behind: %v", found)
			}
		}
	}
	for _, dir := range []string{"oci/bundles", "oci/state"} {
		if left, _ := os.ReadDir(filepath.Join(r.root, dir)); len(left) > 0 {
			r.t.Errorf("left behind in %s: %v", dir, left)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(r.root)) {
		r.t.Errorf("a mount below %s is left: %v", r.root, err)
	}
}

func (r rig) start(t executors.Task) executors.Handle {
	r.t.Helper()
	must(r.t, r.Check(t))
	h, err := r.Start(context.Background(), t)
	must(r.t, err)
	return h
}

func (r rig) wait(h executors.Handle) executors.Outcome {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := r.Wait(ctx, h)
	must(r.t, err)
	return out
}

func (r rig) logs(h executors.Handle) string {
	r.t.Helper()
	var b bytes.Buffer
	must(r.t, r.Logs(context.Background(), h, &b))
	return b.String()
}

// TestHowTasksEnd: each end is what it is, and a program that could not be
// executed is never an exit code.
func TestHowTasksEnd(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		task   executors.Task
		want   executors.Outcome
		detail string
	}{
		"true":         {r.sh("exit 0"), executors.Outcome{Reason: executors.Exited}, ""},
		"one":          {r.sh("exit 1"), executors.Outcome{Reason: executors.Exited, Code: 1}, ""},
		"seven":        {r.sh("exit 7"), executors.Outcome{Reason: executors.Exited, Code: 7}, ""},
		"126":          {r.sh("/bin/data"), executors.Outcome{Reason: executors.Exited, Code: 126}, ""},
		"127":          {r.sh("/no/such"), executors.Outcome{Reason: executors.Exited, Code: 127}, ""},
		"TERM":         {r.sh("kill -TERM $$"), executors.Outcome{Reason: executors.Signaled, Signal: "terminated"}, ""},
		"KILL":         {r.sh("kill -KILL $$"), executors.Outcome{Reason: executors.Signaled, Signal: "killed"}, ""},
		"SEGV":         {r.sh("kill -SEGV $$"), executors.Outcome{Reason: executors.Signaled, Signal: "segmentation fault"}, ""},
		"leaves":       {r.sh("setsid sleep 1000 & exit 3"), executors.Outcome{Reason: executors.Exited, Code: 3}, ""},
		"missing":      {r.task("/no/such"), executors.Outcome{Reason: executors.NotStarted}, "no such file"},
		"not a file":   {r.task("/bin"), executors.Outcome{Reason: executors.NotStarted}, "permission denied"},
		"no program":   {r.task("/bin/data"), executors.Outcome{Reason: executors.NotStarted}, "permission denied"},
		"interpreter":  {r.task("/bin/orphan"), executors.Outcome{Reason: executors.NotStarted}, "what it needs to run is not in the image"},
		"format":       {r.task("/bin/text"), executors.Outcome{Reason: executors.NotStarted}, "exec format error"},
		"broken image": {r.sh("exit 0"), executors.Outcome{Reason: executors.NotStarted}, "not a whole tar file"},
	} {
		if name == "broken image" {
			c.task.Image = "docker-archive:" + filepath.Join(r.root, "broken.tar")
			must(t, os.WriteFile(filepath.Join(r.root, "broken.tar"), []byte("no tar"), 0o600))
		}
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			h := r.start(c.task)
			got := r.wait(h)
			if !strings.Contains(got.Detail, c.detail) || (c.detail == "") != (got.Detail == "") || got.Started.IsZero() || got.Ended.Before(got.Started) {
				t.Errorf("the outcome is %+v, want %q in its detail", got, c.detail)
			}
			got.Detail, got.Started, got.Ended = "", time.Time{}, time.Time{}
			if got != c.want {
				t.Errorf("the outcome is %+v, want %+v", got, c.want)
			}
			if again := New(r.opts); again.Name() != "oci" {
				t.Error(again.Name())
			} else if out, err := again.Wait(context.Background(), h); err != nil || out.Reason != c.want.Reason || out.Code != c.want.Code {
				t.Errorf("another engine sees %+v, %v", out, err)
			}
		})
	}
}

func TestOutOfMemory(t *testing.T) {
	r := newRig(t)
	for name, script := range map[string]string{"itself": "exec tail /dev/zero", "a child": "tail /dev/zero; exit 0"} {
		task := r.sh(script)
		task.Resources.Memory = 32 << 20
		if out := r.wait(r.start(task)); out.Reason != executors.OOM || out.Code != 0 || !strings.Contains(out.Detail, "killed 1 of its processes") {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// TestWhatAContainerSees: environment, folder, files, mounts, network, limits.
func TestWhatAContainerSees(t *testing.T) {
	r := newRig(t)
	ro, rw := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(ro+"/f", []byte("read only\n"), 0o600))
	lists := func(change func(*executors.Task), script string) string {
		t.Helper()
		task := r.sh(script)
		if change != nil {
			change(&task)
		}
		h := r.start(task)
		out, log := r.wait(h), r.logs(h)
		if out.Reason != executors.Exited || out.Code != 0 {
			t.Errorf("%s: %+v\n%s", script, out, log)
		}
		return strings.TrimSpace(log)
	}
	task := r.task("/bin/env")
	task.Process.Env = []string{"A=1=2", "EMPTY=", "FROM_IMAGE=no", "LINE=a\nb"}
	h := r.start(task)
	r.wait(h)
	want := "PATH=/bin\nFROM_IMAGE=no\nA=1=2\nEMPTY=\nLINE=a\nb\n" + executors.EnvTask + "=" + string(task.ID) + "\n" + runner.EnvLifeline + "=3\n"
	if diff := cmp.Diff(want, r.logs(h)); diff != "" {
		t.Errorf("the environment: %s", diff)
	}
	filepath.WalkDir(r.root, func(p string, d fs.DirEntry, err error) error {
		if text, bad := os.ReadFile(p); err == nil && d.Type().IsRegular() && bad == nil && bytes.Contains(text, []byte("A=1=2")) && filepath.Base(p) != "runner.out" {
			t.Errorf("a variable stands in %s", p)
		}
		return nil
	})
	if got := lists(nil, "pwd"); !strings.HasPrefix(got, filepath.Join(r.root, "tasks")) {
		t.Errorf("the working folder is %s", got)
	}
	if got := lists(func(t *executors.Task) { t.Process.Cwd = "/bin" }, "pwd"); got != "/bin" {
		t.Errorf("the working folder is %s", got)
	}
	if got := lists(nil, "cat /etc/greeting; echo changed >/etc/greeting; echo new >/new; cat /etc/greeting; id -u"); got != "from the image\nchanged\n0" {
		t.Errorf("files and user: %q", got)
	}
	if got := lists(nil, "cat /etc/greeting; ls /new 2>/dev/null; true"); got != "from the image" {
		t.Errorf("one container sees what another wrote: %q", got)
	}
	mounts := func(t *executors.Task) {
		t.Mounts = []specs.Mount{{Source: ro, Destination: ro, Options: []string{"ro"}}, {Source: rw, Destination: "/data"}}
	}
	if got := lists(mounts, "cat "+ro+"/f; (echo x > "+ro+"/g) 2>/dev/null || echo refused; echo y > /data/h; touch out"); got != "read only\nrefused" {
		t.Errorf("mounts: %q", got)
	}
	if text, err := os.ReadFile(rw + "/h"); err != nil || string(text) != "y\n" {
		t.Errorf("a writable mount holds %q, %v", text, err)
	}
	if got := lists(nil, "echo forged > .oci/exit.json || mkdir .oci/x || mv .oci away || echo refused"); !strings.HasSuffix(got, "refused") {
		t.Errorf("a container changes our notes: %q", got)
	}
	// A listener whose input ends may leave before it has read: its is held open.
	if got := lists(nil, "ip -o link | wc -l; ip -o link; mkfifo open; exec 3<>open; nc -l -p 80 <&3 & until echo hi | nc 127.0.0.1 80 2>/dev/null; do :; done; wait"); !strings.HasPrefix(got, "1\n") || !strings.Contains(got, "LOOPBACK,UP") || !strings.HasSuffix(got, "hi") {
		t.Errorf("the network: %q", got)
	}
	if got := lists(func(t *executors.Task) { t.Resources.NetHost = true }, "ip -o link | wc -l"); got == "1" {
		t.Errorf("the host's network: %q", got)
	}
	if got := lists(func(t *executors.Task) { t.Resources.ShmSize = 96 << 20 }, "df -m /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2 || true; df -m /dev/shm"); !strings.Contains(got, " 96 ") {
		t.Errorf("/dev/shm: %q", got)
	}
	if got := lists(func(t *executors.Task) { t.Resources.Ulimits = map[string]uint64{"nofile": 333, "core": 0} }, "ulimit -n; ulimit -c"); got != "333\n0" {
		t.Errorf("ulimits: %q", got)
	}
	if got := lists(func(t *executors.Task) { t.Resources.CPUs, t.Resources.Memory = 1, 64<<20 }, "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max"); !strings.HasPrefix(got, "67108864\n100000") {
		t.Errorf("limits: %q", got)
	}
}

// TestLogsAreWhole: many lines, a long one and bytes that are no text.
func TestLogsAreWhole(t *testing.T) {
	r := newRig(t)
	h := r.start(r.sh(`seq 1 200000; head -c 200000 /dev/zero | tr '\0' x; printf '\n\377\000\n'`))
	var live bytes.Buffer
	must(t, r.Logs(context.Background(), h, &live))
	var want bytes.Buffer
	for i := range 200000 {
		fmt.Fprintln(&want, i+1)
	}
	want.WriteString(strings.Repeat("x", 200000) + "\n\xff\x00\n")
	if !bytes.Equal(live.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes came, want %d", live.Len(), want.Len())
	}
	r.wait(h)
}

// TestOneStart: many engines that start one task at once start it once.
func TestOneStart(t *testing.T) {
	r := newRig(t)
	task := r.sh("echo once >> log; sleep 0.5")
	type result struct {
		h   executors.Handle
		err error
	}
	all := make(chan result)
	var engines [4]*Executor // a lifeline ends with its executor
	for i := range engines {
		engines[i] = New(r.opts)
		go func() {
			h, err := engines[i].Start(context.Background(), task)
			all <- result{h, err}
		}()
	}
	handles := map[executors.Handle]bool{}
	for range 4 {
		got := <-all
		must(t, got.err)
		handles[got.h] = true
	}
	if len(handles) != 1 {
		t.Errorf("the handles are %v, want one", handles)
	}
	for h := range handles {
		r.wait(h)
		if again := r.start(task); again != h {
			t.Errorf("a second start gives %v, want %v", again, h)
		}
	}
	if text, err := os.ReadFile(task.Dir + "/log"); err != nil || string(text) != "once\n" {
		t.Errorf("it ran as %q, %v", text, err)
	}
	runtime.KeepAlive(engines)
}

// up waits for a file that a task writes when it is as far.
func up(t *testing.T, path string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%s does not come", path)
		}
	}
}

func TestStop(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	kind := r.sh("trap 'echo bye; exit 5' TERM; touch up; while :; do sleep 0.05; done")
	h := r.start(kind)
	up(t, kind.Dir+"/up")
	must(t, r.Stop(ctx, h, 20*time.Second))
	if out := r.wait(h); out.Reason != executors.Stopped || r.logs(h) != "bye\n" {
		t.Errorf("a graceful stop: %+v, %q", out, r.logs(h))
	}
	deaf := r.sh("trap '' TERM; setsid sh -c 'sleep 1000' & touch up; while :; do sleep 0.05; done")
	h = r.start(deaf)
	up(t, deaf.Dir+"/up")
	must(t, r.Stop(ctx, h, 300*time.Millisecond))
	if out := r.wait(h); out.Reason != executors.Stopped {
		t.Errorf("a hard stop: %+v", out)
	}
	must(t, r.Stop(ctx, h, time.Second))
	late := r.sh("sleep 1000")
	late.Deadline = 500 * time.Millisecond
	if out := r.wait(r.start(late)); out.Reason != executors.TimedOut {
		t.Errorf("a deadline: %+v", out)
	}
}

// engine is a process that starts the task of a folder and waits: what the
// tests kill.
func engine(dir string) {
	var task executors.Task
	var o Options
	read := func(name string, v any) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(text, v)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "engine:", err)
			os.Exit(1)
		}
	}
	read("task.json", &task)
	read("options.json", &o)
	e := New(o)
	h, err := e.Start(context.Background(), task)
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
	e.Wait(context.Background(), h)
	os.Exit(0)
}

// engineWith runs an engine of its own for a task until the task is up.
func (r rig) engineWith(task executors.Task) *exec.Cmd {
	r.t.Helper()
	cmd := r.engineOf(task)
	up(r.t, task.Dir+"/up")
	return cmd
}

func (r rig) engineOf(task executors.Task) *exec.Cmd {
	r.t.Helper()
	for name, v := range map[string]any{"task.json": task, "options.json": r.opts} {
		text, err := json.Marshal(v)
		must(r.t, err)
		must(r.t, os.WriteFile(filepath.Join(task.Dir, name), text, 0o600))
	}
	program, err := os.Executable()
	must(r.t, err)
	cmd := exec.Command(program, "engine", task.Dir)
	cmd.Stderr = os.Stderr
	must(r.t, cmd.Start())
	return cmd
}

const deafTree = "trap '' TERM; setsid env -i sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & touch up; while :; do sleep 0.05; done"

// TestKilledEngine: a container ends within 5 s of its engine, also when it is
// deaf and has hidden itself, and a later engine knows how.
func TestKilledEngine(t *testing.T) {
	r := newRig(t)
	task := r.sh(deafTree)
	cmd := r.engineWith(task)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	began := time.Now()
	list, err := r.List(context.Background(), "run-1")
	if err != nil || len(list) != 1 || list[0].Task != task.ID || list[0].Executor != "oci" {
		t.Fatalf("the list is %v, %v", list, err)
	}
	out := r.wait(list[0])
	if took := time.Since(began); took > 5*time.Second+slack {
		t.Errorf("it took %s", took)
	}
	if out.Reason != executors.Signaled || out.Signal != "killed" || !strings.Contains(out.Detail, "the engine was gone") {
		t.Errorf("the outcome is %+v", out)
	}
	must(t, r.Reap(context.Background(), list[0]))
	if list, err := r.List(context.Background(), "run-1"); err != nil || len(list) != 0 {
		t.Errorf("after reaping the list is %v, %v", list, err)
	}
}

// slack is what a crowded machine adds to a bound of time.
const slack = 10 * time.Second

// TestKilledEngineFindsTheEnd: a container that ends by itself after its engine
// was killed has its exit code all the same.
func TestKilledEngineFindsTheEnd(t *testing.T) {
	r := newRig(t)
	task := r.sh("trap 'exit 9' TERM; touch up; while :; do sleep 0.05; done")
	cmd := r.engineWith(task)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	h := r.start(task)
	if out := r.wait(h); out.Reason != executors.Exited || out.Code != 9 {
		t.Errorf("the outcome is %+v", out)
	}
}

// TestKilledAtAnyTime kills engines at any moment of a start. The next engine
// that starts the task learns an end, the task ran at most once, and nothing is
// left.
func TestKilledAtAnyTime(t *testing.T) {
	r := newRig(t)
	for i := range 12 {
		task := r.sh("echo run >> runs; sleep 0.1")
		cmd := r.engineOf(task)
		kill := time.NewTimer(time.Duration(i) * 40 * time.Millisecond)
		<-kill.C
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		out := r.wait(r.start(task))
		ran, err := os.ReadFile(task.Dir + "/runs")
		if err != nil && !errors.Is(err, fs.ErrNotExist) || len(ran) > len("run\n") {
			t.Errorf("killed after %d ms it ran as %q, %v", i*40, ran, err)
		}
		if out.Reason == executors.Exited && out.Code == 0 && string(ran) != "run\n" || out.Reason == executors.NotStarted {
			t.Errorf("killed after %d ms the outcome is %+v, and it ran as %q", i*40, out, ran)
		}
	}
}

// TestKilledWatcher: without its watcher a container is ended by the next who
// looks, also what has no mark and no parent of ours.
func TestKilledWatcher(t *testing.T) {
	r := newRig(t)
	task := r.sh(deafTree)
	cmd := r.engineWith(task)
	all, err := proc.List()
	must(t, err)
	killed := 0
	for _, p := range proc.Marked(all, executors.EnvTask+"="+string(task.ID)) {
		if strings.Contains(proc.CommandLine(p.Pid), WatchCommand) {
			must(t, p.Signal(unix.SIGKILL))
			killed++
		}
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	h := r.start(task)
	if out := r.wait(h); out.Reason != executors.Lost || killed != 1 {
		t.Errorf("after %d watchers were killed the outcome is %+v", killed, out)
	}
}

// TestRunnerInAContainer runs the real supervisor with a server and a step in
// a container: the folder's contract is that of every other executor.
func TestRunnerInAContainer(t *testing.T) {
	r := newRig(t)
	task := r.task()
	spec := runner.Spec{Version: 1, Task: task.ID, Secrets: []string{"TOKEN"},
		Steps: []runner.Step{{ID: "greet", Argv: []string{"/bin/sh", "-c", "cat /etc/greeting > {step}/out; echo $TOKEN"}, Deadline: time.Minute, Outputs: []string{"out"}}}}
	must(t, runner.WriteSpec(task.Dir, spec))
	task.Process.Env = []string{"TOKEN=very-secret-value"}
	h := r.start(task)
	if out := r.wait(h); out.Reason != executors.Exited || out.Code != 0 {
		t.Fatalf("the outcome is %+v: %s", out, r.logs(h))
	}
	record, err := runner.ReadExit(task.Dir)
	if err != nil || record.Outcome.Class != "" || len(record.Left) > 0 {
		t.Errorf("exit.json: %+v, %v", record, err)
	}
	found := ""
	filepath.WalkDir(task.Dir, func(p string, d fs.DirEntry, err error) error {
		if text, bad := os.ReadFile(p); bad == nil && bytes.Contains(text, []byte("from the image")) {
			found = p
		} else if bytes.Contains(text, []byte("very-secret")) {
			t.Errorf("the secret stands in %s", p)
		}
		return nil
	})
	if filepath.Base(found) != "out" {
		t.Errorf("the step's output is not there: %q", found)
	}
}

// TestDevices gives a container a device by a CDI specification: a character
// device of the host under another name, a mount and a variable.
func TestDevices(t *testing.T) {
	folder := t.TempDir()
	must(t, os.WriteFile(folder+"/lib.so", []byte("a driver's library\n"), 0o600))
	must(t, os.WriteFile(folder+"/nvidia.json", []byte(`{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[
		{"name":"GPU-1","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia7","hostPath":"/dev/zero"}],"env":["DEVICE=7"]}},
		{"name":"GPU-2","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia8","hostPath":"/dev/null"}]}}],
		"containerEdits":{"mounts":[{"hostPath":"`+folder+`/lib.so","containerPath":"/usr/lib/libcuda.so","options":["ro","bind"]}],"env":["DRIVER=1"]}}`), 0o600))
	r := newRig(t, func(o *Options) { o.CDI = []string{folder} })
	task := r.sh("head -c 3 /dev/nvidia7 | wc -c; ls /dev/nvidia*; cat /usr/lib/libcuda.so; echo $DEVICE $DRIVER")
	task.Resources.GPUs = []string{"GPU-1"}
	h := r.start(task)
	r.wait(h)
	if got, want := r.logs(h), "3\n/dev/nvidia7\na driver's library\n7 1\n"; got != want {
		t.Errorf("it sees %q, want %q", got, want)
	}
	task = r.sh("exit 0")
	task.Resources.GPUs = []string{"GPU-3", "vendor.example/card=1"}
	if err := r.Check(task); err == nil || !strings.Contains(err.Error(), "nvidia.com/gpu=GPU-3, vendor.example/card=1") || !strings.Contains(err.Error(), "nvidia-ctk cdi generate") {
		t.Errorf("unknown devices: %v", err)
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		change func(*executors.Task)
		want   string
	}{
		"good":     {func(*executors.Task) {}, ""},
		"id":       {func(t *executors.Task) { t.ID = "A/b" }, "its id"},
		"no image": {func(t *executors.Task) { t.Image = "" }, `write image = "REGISTRY/NAME:TAG"`},
		"short":    {func(t *executors.Task) { t.Image = "busybox" }, "REGISTRY/NAME:TAG"},
		"archive":  {func(t *executors.Task) { t.Image = "docker-archive:/no/such" }, "its image is missing"},
		"terminal": {func(t *executors.Task) { t.Process.Terminal = true }, "no terminal"},
		"relative": {func(t *executors.Task) { t.Process.Args = []string{"sh"} }, "no absolute path"},
		"folder":   {func(t *executors.Task) { t.Dir = "/no/such" }, "its folder"},
		"mount":    {func(t *executors.Task) { t.Mounts = []specs.Mount{{Source: "/no/such", Destination: "/x"}} }, "its mount is missing"},
		"to":       {func(t *executors.Task) { t.Mounts = []specs.Mount{{Source: "/tmp", Destination: "x"}} }, "no absolute path"},
		"cpus":     {func(t *executors.Task) { t.Resources.CPUs = runtime.NumCPU() + 1 }, "this host has"},
		"memory":   {func(t *executors.Task) { t.Resources.Memory = 1 << 60 }, "this host has"},
		"shm":      {func(t *executors.Task) { t.Resources.ShmSize, t.Resources.IPCHost = 1<<60, true }, "leave out ipc"},
		"ulimit":   {func(t *executors.Task) { t.Resources.Ulimits = map[string]uint64{"files": 1} }, "nofile"},
	} {
		task := r.sh("exit 0")
		c.change(&task)
		err := r.Check(task)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if !mayRaise() {
		var now unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &now))
		if err := ulimit("nofile", now.Max+1); err == nil || !strings.Contains(err.Error(), "CAP_SYS_RESOURCE") {
			t.Errorf("a raised limit: %v", err)
		}
	}
	if err := ulimit("nofile", 64); err != nil {
		t.Error(err)
	}
	e := New(Options{Self: r.opts.Self, Folder: r.opts.Folder, Runtime: "no-such-runtime"})
	if err := e.Check(r.sh("exit 0")); err == nil || !strings.Contains(err.Error(), "install runc") {
		t.Errorf("no runtime: %v", err)
	}
}

func TestProbe(t *testing.T) {
	r := newRig(t)
	must(t, r.Probe(context.Background()))
	e := New(Options{Self: r.opts.Self, Folder: r.opts.Folder, Runtime: "/bin/false"})
	if err := e.Probe(context.Background()); err == nil || !strings.Contains(err.Error(), "running an empty container") {
		t.Errorf("a runtime that fails: %v", err)
	}
	if _, err := e.Start(context.Background(), executors.Task{ID: "x", Image: "registry.invalid/x:1", Dir: t.TempDir()}); err == nil || errors.Is(err, image.ErrUnusable) {
		t.Errorf("a registry that is not there: %v", err)
	}
}
