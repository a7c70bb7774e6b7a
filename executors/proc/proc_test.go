package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors/internal/puppet"
)

func TestMain(m *testing.M) {
	puppet.Main()
	os.Exit(m.Run())
}

// sleeper starts a process that never ends by itself.
func sleeper(t *testing.T, env ...string) (*exec.Cmd, Process) {
	t.Helper()
	argv := puppet.Self("sleeper")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	p, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, p
}

func TestSignalNeverHitsAReusedPid(t *testing.T) {
	_, p := sleeper(t)
	other := ID{p.Pid, p.Start - 1} // an earlier process that had this pid
	if other.Alive() {
		t.Error("an ended process counts as alive")
	}
	if err := other.Signal(unix.SIGKILL); err != nil || !p.Alive() {
		t.Errorf("error %v, alive %t; want a signal to nobody", err, p.Alive())
	}
	if err := other.Wait(context.Background()); err != nil {
		t.Errorf("waiting for an ended process: %v", err)
	}
}

func TestWaitSeesTheEndOfAProcess(t *testing.T) {
	_, p := sleeper(t)
	short, done := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer done()
	if err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a living process: %v, want the end of the context", err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	long, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	if err := p.Wait(long); err != nil || p.Alive() {
		t.Errorf("after KILL: %v, alive %t", err, p.Alive())
	}
}

func TestMarkedFindsOnlyTheVeryValue(t *testing.T) {
	mark := fmt.Sprintf("SOTABUILD_TASK=test-%d", time.Now().UnixNano())
	_, ours := sleeper(t, "A=1", mark)
	sleeper(t, mark+"0", "X"+mark)
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	if got := Marked(all, mark); len(got) != 1 || got[0].ID != ours.ID {
		t.Errorf("found %v, want %v", got, ours)
	}
}

func TestUnderFollowsAllGenerations(t *testing.T) {
	p := func(pid, parent int) Process { return Process{ID: ID{Pid: pid}, Parent: parent} }
	all := []Process{p(1, 0), p(2, 1), p(3, 2), p(4, 3), p(5, 1), p(6, 5)}
	var got []int
	for _, q := range Under(all, 2, 6) {
		got = append(got, q.Pid)
	}
	if !slices.Equal(got, []int{3, 4}) {
		t.Errorf("under 2 and 6 are %v, want 3 and 4", got)
	}
}

func TestListenersAndTheirHolder(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "[::1]", ""} {
		addr := fmt.Sprintf("%s:%d", host, puppet.Port())
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("not here: %v", err)
			continue
		}
		defer l.Close()
		want := l.Addr().(*net.TCPAddr)
		sockets, err := Listeners(want.Port)
		if err != nil || len(sockets) != 1 || !net.IP(sockets[0].Addr.Addr().AsSlice()).Equal(want.IP) || sockets[0].UID != os.Getuid() {
			t.Fatalf("%s: sockets %v, %v; want one at %v", addr, sockets, err, want)
		}
		all, _ := List()
		if p, ok := Holder(all, sockets[0].Inode); !ok || p.Pid != os.Getpid() {
			t.Errorf("%s: held by %v, want us", addr, p)
		}
		answers, err := Answering(want.Port)
		if reached := host != "[::1]"; err != nil || (len(answers) == 1) != reached {
			t.Errorf("%s: %v answers on %s", addr, answers, Host)
		}
	}
}

// TestASocketThatStandsTwice is a table as a busy kernel wrote it.
func TestASocketThatStandsTwice(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   7: 0100007F:AEF9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 239155 1 0000000000000000 100 0 0 10 0
   8: 00000000:AEF9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 239156 1 0000000000000000 100 0 0 10 0
   9: 0100007F:AEF9 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 239170 1 0000000000000000 20 4 30 10 -1
  10: 0100007F:AEF8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 239171 1 0000000000000000 100 0 0 10 0
   9: 0100007F:AEF9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 239155 1 0000000000000000 100 0 0 10 0
`
	want := []Socket{{netip.MustParseAddrPort("127.0.0.1:44793"), 239155, 1000}, {netip.MustParseAddrPort("0.0.0.0:44793"), 239156, 0}}
	if got, err := listening(table, 44793); err != nil || !slices.Equal(got, want) {
		t.Errorf("listening are %v, %v; want %v", got, err, want)
	}
}

func TestClaimsAreDistinct(t *testing.T) {
	port, claim, err := Claim(0)
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	if port < firstPort {
		t.Errorf("port %d, want at least %d", port, firstPort)
	}
	if _, _, err := Claim(port); err == nil {
		t.Error("the port was claimed twice")
	}
	claim.Close()
	_, again, err := Claim(port)
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	again.Close()
}

func TestShmOfOthersStays(t *testing.T) {
	dir := fmt.Sprintf("/dev/shm/sotabuild-proc-%d-", time.Now().UnixNano())
	before, after := dir+"before", dir+"after"
	defer os.Remove(before)
	defer os.Remove(after)
	hold := func(path string) *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Skipf("no %s here: %v", shmDir, err)
		}
		return f
	}
	old := hold(before)
	var m Shm
	m.Begin()
	young := hold(after)
	m.Note(os.Getpid())
	if _, ok := m.Held[after]; !ok || len(m.Held) != 1 {
		t.Errorf("held %v, want %s only", m.Held, after)
	}
	if removed, _ := m.Sweep(); len(removed) > 0 {
		t.Errorf("removed %v while it was in use", removed)
	}
	old.Close()
	young.Close()
	if removed, left := m.Sweep(); !slices.Equal(removed, []string{after}) || len(left) > 0 {
		t.Errorf("removed %v, left %v; want %s removed", removed, left, after)
	}
	if _, err := os.Stat(before); err != nil {
		t.Error("what was there before is gone")
	}
}

func TestCgroupKillsWhatIsInIt(t *testing.T) {
	name := fmt.Sprintf("sotabuild-test-%d", time.Now().UnixNano())
	g, err := MakeCgroup(name)
	if err != nil {
		t.Skipf("SKIPPED, no control groups here: %v", err)
	}
	r := NewReaper()
	defer r.Close()
	if r.Cgroup, err = g.Open(); err != nil {
		t.Fatal(err)
	}
	defer r.Cgroup.Close()
	pid := filepath.Join(t.TempDir(), "pid")
	c, err := r.Start(Command{Argv: puppet.Self("server", "-fork", pid, "-bare"), Dir: "/", Stdout: os.Stderr, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(pid); err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the sleeper did not start")
		}
	}
	var orphan int
	text, _ := os.ReadFile(pid)
	fmt.Sscan(string(text), &orphan)
	if _, err := FindCgroup(g.Path(), "another"); err == nil {
		t.Error("a group of another name was accepted")
	}
	found, err := FindCgroup(g.Path(), name)
	if err != nil || found == nil || found.Empty() {
		t.Fatalf("finding it: %v, %v", found, err)
	}
	if err := found.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.Done
	for late := time.Now().Add(time.Minute); !found.Empty() && time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
	}
	if _, err := Read(orphan); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the orphan: %v, want it gone", err)
	}
	if err := found.Remove(); err != nil {
		t.Error(err)
	}
	if again, err := FindCgroup(g.Path(), name); again != nil || err != nil {
		t.Errorf("after its removal: %v, %v", again, err)
	}
}

func TestReaperTellsHowChildrenEnd(t *testing.T) {
	r := NewReaper()
	defer r.Close()
	for _, c := range []struct {
		flags []string
		code  int
		name  string
		how   string
	}{
		{[]string{"-code", "0"}, 0, "", "exited with code 0"},
		{[]string{"-code", "7"}, 7, "", "exited with code 7"},
		{[]string{"-signal", "9"}, 0, "killed", "was ended by SIGKILL (killed)"},
	} {
		told := make(chan bool, 1)
		child, err := r.Start(Command{Argv: puppet.Self("client", c.flags...), Dir: "/", Stdout: os.Stderr, Stderr: os.Stderr, OnExit: func() { told <- true }})
		if err != nil {
			t.Fatal(err)
		}
		<-child.Done
		<-told
		code, name := child.Exit()
		if name != c.name || name == "" && (code == nil || *code != c.code) {
			t.Errorf("%v: code %v, signal %q", c.flags, code, name)
		}
		if how := child.How(); len(how) < len(c.how) || how[:len(c.how)] != c.how {
			t.Errorf("%v: %q, want %q", c.flags, how, c.how)
		}
	}
	if _, err := r.Start(Command{Argv: []string{"/no/such"}, Dir: "/", Stdout: os.Stderr, Stderr: os.Stderr}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
}
