package cache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/engine/key"
)

// TestMain is also the other process of the tests below: CACHE_TEST_ROLE says
// what it does with the store in CACHE_TEST_DIR.
func TestMain(m *testing.M) {
	role, dir := os.Getenv("CACHE_TEST_ROLE"), os.Getenv("CACHE_TEST_DIR")
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role, dir); err != nil {
		fmt.Printf("error %v\n", err)
		os.Exit(1)
	}
}

func play(role, dir string) error {
	l, err := OpenLocal(dir, Options{Command: "child " + role})
	if err != nil {
		return err
	}
	switch role {
	case "hold":
		fmt.Println("ready")
		_, err := io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, l.Close())
	case "write":
		return writeOn(l, 1<<30)
	case "full":
		// No file may grow beyond this: as if the disk were full.
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 8 << 10, Max: 8 << 10}); err != nil {
			return err
		}
		_, _, err := l.Object(strings.NewReader(strings.Repeat("x", 9<<10)))
		fmt.Printf("object %v\n", err)
		first := writeOn(l, 1<<30)
		second := writeOn(l, 1)
		fmt.Printf("put %v\n", first)
		fmt.Printf("put %v\n", second)
		return l.Close()
	}
	return fmt.Errorf("unknown role %q", role)
}

// writeOn records n nodes w1, w2, … from where the store is, and says each
// serial after it was acknowledged.
func writeOn(l *Local, n int) error {
	for range n {
		serial := l.Serial() + 1
		text := fmt.Sprintf("w%d", serial)
		d, size, err := l.Object(strings.NewReader(text))
		if err != nil {
			return err
		}
		r, err := l.Put(context.Background(), named(text, Output{"row", d, size}))
		if err != nil {
			return err
		}
		fmt.Printf("ack %d\n", r.Serial)
	}
	return nil
}

// child starts this binary in a role and returns its lines.
func child(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Scanner, io.WriteCloser) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CACHE_TEST_ROLE="+role, "CACHE_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test failed before it waited
			must(t, cmd.Process.Kill())
			if err := cmd.Wait(); err == nil {
				t.Error("a killed child ended well")
			}
		}
	})
	return cmd, bufio.NewScanner(out), in
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended before it was killed")
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	cmd, out, _ := child(t, "hold", dir)
	if !out.Scan() || out.Text() != "ready" {
		t.Fatalf("child said %q", out.Text())
	}
	var locked *LockedError
	_, err := OpenLocal(dir, Options{Command: "second"})
	if !errors.As(err, &locked) || locked.Holder.Pid != cmd.Process.Pid || locked.Holder.Command != "child hold" {
		t.Fatalf("got %v, want the holder %d named", err, cmd.Process.Pid)
	}
	closing(t, reader(t, dir)) // readers need no lock
	kill(t, cmd)
	l := local(t, dir) // the lock died with its process
	if _, err := OpenLocal(dir, Options{}); !errors.As(err, &locked) || locked.Holder.Pid != os.Getpid() {
		t.Errorf("the dead holder is still named: %v", err)
	}
	closing(t, l)

	cmd, out, in := child(t, "hold", dir)
	if !out.Scan() || out.Text() != "ready" {
		t.Fatalf("child said %q", out.Text())
	}
	closing(t, in)
	must(t, cmd.Wait())
	closing(t, local(t, dir))
}

// TestKilledWriter kills a writing process at seeded random points, again and
// again in one store, with readers beside it. What it acknowledged is there.
func TestKilledWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	rng := rand.New(rand.NewPCG(2026, 11))
	acked := 0
	for round := range soak(8) {
		cmd, out, _ := child(t, "write", dir)
		for range 1 + rng.IntN(12) {
			if !out.Scan() {
				t.Fatal("the child fell silent")
			}
			var n int
			if _, err := fmt.Sscanf(out.Text(), "ack %d", &n); err != nil || n <= acked {
				t.Fatalf("child said %q after %d", out.Text(), acked)
			}
			acked = n
			s := reader(t, dir)
			checkPrefix(t, s, acked, max(1, acked-20))
			closing(t, s)
		}
		for start, wait := time.Now(), time.Duration(rng.IntN(2000))*time.Microsecond; time.Since(start) < wait; {
		}
		must(t, cmd.Process.Kill())
		for out.Scan() { // what it said before it died is acknowledged, too
			if _, err := fmt.Sscanf(out.Text(), "ack %d", &acked); err != nil {
				t.Fatalf("child said %q", out.Text())
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended before it was killed")
		}
		if rep, err := Verify(dir); err != nil || len(rep.Defects) != 0 || rep.Records < acked {
			t.Fatalf("round %d: %d acknowledged, %+v, %v", round, acked, rep, err)
		}
		l := local(t, dir)
		checkPrefix(t, l, acked, 1)
		acked = int(l.Serial())
		closing(t, l)
	}
}

// checkPrefix wants records from to k without a gap, whole, with k at least n.
func checkPrefix(t *testing.T, s Reader, n, from int) {
	t.Helper()
	k := int(s.Serial())
	if k < n {
		t.Fatalf("%d records, %d were acknowledged", k, n)
	}
	for i := from; i <= k; i++ {
		text := fmt.Sprintf("w%d", i)
		rs := s.Lookup(key.Key(key.Sum([]byte(text))))
		if len(rs) != 1 || rs[0].Serial != uint64(i) {
			t.Fatalf("record %d of %d: found %v; %q", i, k, rs, s.Defects())
		}
		if b, err := s.Bytes(rs[0].Output("row")); err != nil || string(b) != text {
			t.Fatalf("output %d: %q, %v", i, b, err)
		}
	}
}

// TestFullDisk has a process whose files may not grow. It must say so, keep
// what was acknowledged, and leave a store that opens without a word.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	cmd, out, _ := child(t, "full", dir)
	acked := 0
	var said []string
	for out.Scan() {
		if _, err := fmt.Sscanf(out.Text(), "ack %d", &acked); err != nil {
			said = append(said, out.Text())
		}
	}
	must(t, cmd.Wait())
	if len(said) != 3 || !strings.HasPrefix(said[0], "object storing an object: ") ||
		!strings.HasPrefix(said[1], "put recording bench.w") || said[1] != said[2] {
		t.Fatalf("said %q", said)
	}
	for _, s := range said {
		if !strings.Contains(s, dir) || !strings.Contains(s, "file too large") {
			t.Errorf("%q names not the file and the cause", s)
		}
	}
	if acked < 3 {
		t.Fatalf("only %d records fit", acked)
	}
	l := local(t, dir)
	if int(l.Serial()) != acked || len(l.Defects()) != 0 {
		t.Errorf("%d acknowledged, %d there, defects %q", acked, l.Serial(), l.Defects())
	}
	checkPrefix(t, l, acked, 1)
	if left, err := os.ReadDir(dir + "/tmp"); err != nil || len(left) != 0 {
		t.Errorf("left in tmp: %v, %v", left, err)
	}
	closing(t, l)
}
