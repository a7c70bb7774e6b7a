package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/engine/cache/durable"
	"github.com/sotabuild/sotabuild/engine/key"
)

// soak is how often something random is tried: n, or SOTABUILD_SOAK if more.
func soak(n int) int {
	if v, err := strconv.Atoi(os.Getenv("SOTABUILD_SOAK")); err == nil {
		return max(n, v)
	}
	return n
}

// network is a disk as a network file system is on a bad day: a rename says
// ESTALE or EIO, was done although it says so, or is seen by nobody for some
// looks.
type network struct {
	rand   *rand.Rand
	calm   bool
	hidden map[string]int // looks that will not see the file
	faults map[string]int // how often each was played
}

func (n *network) disk() durable.Disk { return durable.Disk{Rename: n.rename, See: n.see} }

func (n *network) rename(from, to string) error {
	if n.calm {
		return os.Rename(from, to)
	}
	switch what := n.rand.IntN(12); what {
	case 0:
		n.faults["stale"]++
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.ESTALE}
	case 1:
		n.faults["io"]++
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.EIO}
	case 2, 3:
		n.faults["done"]++
		if err := os.Rename(from, to); err != nil {
			return err
		}
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: []error{unix.ENOENT, unix.ESTALE}[what-2]}
	case 4, 5:
		n.faults["hidden"]++
		n.hidden[to] = 1 + n.rand.IntN(4)
	}
	return os.Rename(from, to)
}

func (n *network) see(path string) error {
	if n.calm || n.hidden[path] == 0 {
		return nil
	}
	n.hidden[path]--
	return unix.ENOENT
}

// TestNetworkDisk plays a writer on a network file system that fails in seeded
// ways, reopened and rewritten now and then, against a list of what was
// acknowledged: nothing of it is lost, nothing else is found, and nothing is
// left behind.
func TestNetworkDisk(t *testing.T) {
	played := map[string]int{}
	for seed := range uint64(soak(25)) {
		n := &network{rand: rand.New(rand.NewPCG(seed, 5)), hidden: map[string]int{}, faults: played}
		dir := filepath.Join(memory(t), "store")
		open := func() *Local {
			l, err := OpenLocal(dir, Options{Command: "test", Disk: n.disk()})
			must(t, err)
			return l
		}
		l, acked := open(), map[string]uint64{}
		for step := range 60 {
			text := fmt.Sprintf("w%d", n.rand.IntN(40))
			switch n.rand.IntN(12) {
			case 0:
				closing(t, l)
				l = open()
			case 1:
				if err := l.Rewrite(func(*Record) bool { return true }); err != nil && !isFault(err) {
					t.Fatalf("seed %d step %d: rewriting: %v", seed, step, err)
				}
			default:
				d, size, err := l.Object(strings.NewReader(text))
				var r *Record
				if err == nil {
					r, err = l.Put(t.Context(), named(text, Output{"row", d, size}))
				}
				switch {
				case err == nil:
					acked[text] = r.Serial
				case !isFault(err):
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
		}
		n.calm = true
		for text, serial := range acked {
			rs := l.Lookup(named(text).Key)
			if len(rs) == 0 || rs[len(rs)-1].Serial != serial {
				t.Fatalf("seed %d: %s, acknowledged as %d, is found as %v; %q", seed, text, serial, rs, l.Defects())
			}
			if b, err := l.Bytes(rs[0].Output("row")); err != nil || string(b) != text {
				t.Fatalf("seed %d: %s reads as %q, %v", seed, text, b, err)
			}
		}
		for _, r := range l.Records() {
			if _, ok := acked[strings.TrimPrefix(r.Node, "bench.")]; !ok {
				t.Errorf("seed %d: %s is recorded, and nobody was told", seed, r.Node)
			}
		}
		closing(t, l)
		if rep, err := Verify(dir); err != nil || len(rep.Defects) > 0 {
			t.Errorf("seed %d: %+v, %v", seed, rep, err)
		}
		for _, folder := range []string{"tmp", "quarantine"} {
			if left, err := os.ReadDir(filepath.Join(dir, folder)); err != nil || len(left) > 0 {
				t.Errorf("seed %d: left in %s: %v, %v", seed, folder, left, err)
			}
		}
	}
	for _, what := range []string{"stale", "io", "done", "hidden"} {
		if played[what] < 10 {
			t.Errorf("%q was played %d times: the test no longer tests it", what, played[what])
		}
	}
}

// isFault reports whether an error is one that a network disk may give: what
// was played, or that a file just made is not seen.
func isFault(err error) bool {
	return errors.Is(err, unix.ESTALE) || errors.Is(err, unix.EIO) || errors.Is(err, ErrMissing)
}

// TestJournalDamageAtEveryByte tears and flips a journal at seeded places: what
// nobody touched is found, nothing else is, and the next record is.
func TestJournalDamageAtEveryByte(t *testing.T) {
	dir, sizes := filled(t)
	whole, err := os.ReadFile(dir + "/journal")
	must(t, err)
	r := rand.New(rand.NewPCG(7, 7))
	for range soak(300) {
		b := append([]byte(nil), whole...)
		if r.IntN(2) == 0 { // torn
			b = b[:r.IntN(len(b))]
		}
		for range r.IntN(3) { // flipped
			if len(b) > 0 {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
		}
		must(t, os.WriteFile(dir+"/journal", b, 0o600))
		var want []string // the frames that nobody touched
		from := int64(0)
		for i, to := range sizes {
			if to <= int64(len(b)) && string(b[from:to]) == string(whole[from:to]) {
				want = append(want, string(rune('a'+i)))
			}
			from = to
		}
		l := local(t, dir)
		got := nodes(t, l, "a", "b", "c")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("found %v, want the untouched %v", got, want)
		}
		put(t, l, named("d", Output{"row", key.Sum([]byte("a")), 1}))
		closing(t, l)
		s := reader(t, dir)
		if len(s.Lookup(named("d").Key)) != 1 || fmt.Sprint(nodes(t, s, "a", "b", "c")) != fmt.Sprint(want) {
			t.Fatal("what was appended after the damage, or what was whole, is not found")
		}
		closing(t, s)
	}
}
