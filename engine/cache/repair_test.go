package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/cache/journal"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Repair takes damage out of the journal and broken objects out of the way;
// what is whole stays, and a second look finds nothing.
func TestRepair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	l, err := OpenLocal(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var digests []key.Digest
	for i := range 3 {
		d, n, err := l.Object(strings.NewReader(strings.Repeat("x", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d)
		if _, err := l.Put(t.Context(), Record{Key: key.Key{byte(i + 1)}, Node: "n" + string(rune('0'+i)), Kind: "k", Outcome: Outcome{State: OK},
			Outputs: []Output{{Name: "out", Digest: d, Size: n}}}); err != nil {
			t.Fatal(err)
		}
	}
	broken := l.objects
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "journal")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1 // in the second record
	if err := os.WriteFile(path, append(b, "torn"...), 0o600); err != nil {
		t.Fatal(err)
	}
	object, err := broken.Path(digests[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(object, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(object, []byte("xyz"), 0o600); err != nil {
		t.Fatal(err)
	}
	rep, err := Repair(dir, Options{})
	if err != nil || rep.Records != 2 || len(rep.Defects) != 4 {
		t.Errorf("repair: %+v, %v; want two records, and damage in the journal, its tail, an object and the record that lacks it", rep, err)
	}
	rep, err = Verify(dir)
	if err != nil || rep.Records != 2 || rep.Objects != 2 || len(rep.Defects) != 0 || rep.Lost != 1 {
		t.Errorf("verify: %+v, %v; want no defect, and the third record as lost", rep, err)
	}
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if len(r.Lookup(key.Key{1})) != 1 || len(r.Lookup(key.Key{2})) != 0 || len(r.Lookup(key.Key{3})) != 0 || r.Serial() != 3 {
		t.Errorf("serial %d, want 3; the first record is whole, the other two are misses", r.Serial())
	}
	if rec := r.Record(3); rec == nil || rec.Node != "n2" || r.Record(2) != nil || r.Record(4) != nil {
		t.Errorf("Record(3) = %+v; want the third, and neither a second nor a fourth", rec)
	}
}

// TestRepairMendsEverything: whatever a look finds wrong, Repair mends, so that
// the next look finds nothing and the next writer says nothing; and what was
// lost is whole again once it is stored again.
func TestRepairMendsEverything(t *testing.T) {
	b := key.Sum([]byte("b"))
	for name, damage := range map[string]func(dir string) error{
		"flipped":   func(dir string) error { return overwrite(objectFile(dir, b), "B") },
		"cut":       func(dir string) error { return overwrite(objectFile(dir, b), "") },
		"grown":     func(dir string) error { return overwrite(objectFile(dir, b), "bb") },
		"gone":      func(dir string) error { return os.Remove(objectFile(dir, b)) },
		"shardGone": func(dir string) error { return os.RemoveAll(filepath.Dir(objectFile(dir, b))) },
		"folder": func(dir string) error {
			return errors.Join(os.Remove(objectFile(dir, b)), os.MkdirAll(objectFile(dir, b)+"/x", 0o700))
		},
		"link": func(dir string) error {
			return errors.Join(os.Rename(objectFile(dir, b), dir+"/b"), os.Symlink(dir+"/b", objectFile(dir, b)))
		},
		"stray": func(dir string) error { return os.WriteFile(dir+"/cas/notes.txt", nil, 0o600) },
		"longStray": func(dir string) error {
			return os.WriteFile(filepath.Dir(objectFile(dir, b))+"/"+strings.Repeat("n", 255), nil, 0o600)
		},
		"odd": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/cas/odd \n\xff", 0o700), os.WriteFile(dir+"/cas/odd \n\xff/x", nil, 0o600))
		},
		"torn":  func(dir string) error { return os.Truncate(dir+"/journal", size(dir+"/journal")-3) },
		"newer": func(dir string) error { return appendFrame(dir+"/journal", journal.AppendFrame(nil, 99, []byte("?"))) },
		"noBody": func(dir string) error {
			return appendFrame(dir+"/journal", journal.AppendFrame(nil, index.FrameRecord, make([]byte, index.HeadFixed+4)))
		},
		"badLost": func(dir string) error {
			return appendFrame(dir+"/journal", journal.AppendFrame(nil, index.FrameLost, []byte("x")))
		},
		"zeroed": func(dir string) error { return os.WriteFile(dir+"/journal", make([]byte, size(dir+"/journal")), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := filled(t)
			must(t, damage(dir))
			if rep, err := Verify(dir); err != nil || len(rep.Defects) == 0 && name != "torn" && name != "zeroed" { // those may be a writer's
				t.Fatalf("the damage is not found: %+v, %v", rep, err)
			}
			if rep, err := Repair(dir, Options{}); err != nil || len(rep.Defects) == 0 {
				t.Fatalf("repair: %+v, %v", rep, err)
			}
			rep, err := Verify(dir)
			if err != nil || len(rep.Defects) > 0 {
				t.Errorf("after a repair: %+v, %v", rep, err)
			}
			l := local(t, dir)
			d, n, err := l.Object(strings.NewReader("b"))
			if err != nil || d != b {
				t.Errorf("storing it again: %v, %v", d, err)
			}
			put(t, l, named("b2", Output{"row", d, n}))
			if len(l.Lookup(key.Key(key.Sum([]byte("b"))))) == 0 && rep.Lost > 0 {
				t.Error("a record whose output is back is no result")
			}
			if len(l.Defects()) > 0 {
				t.Errorf("the next writer says %q", l.Defects())
			}
			closing(t, l)
			if rep, err := Verify(dir); err != nil || len(rep.Defects) > 0 || rep.Lost > 0 {
				t.Errorf("after it was stored again: %+v, %v", rep, err)
			}
		})
	}
}

// TestRepairKeepsACopyOfWhatItCannotUse: entries of another build are in
// quarantine, byte by byte, before they leave the journal.
func TestRepairKeepsACopyOfWhatItCannotUse(t *testing.T) {
	for name, frame := range map[string][]byte{
		"kind": journal.AppendFrame(nil, 99, []byte("?")),
		"body": journal.AppendFrame(nil, index.FrameRecord, append(index.AppendHead(nil, 9, key.Key{9}, "n", "k"), "of another version"...)),
		"head": journal.AppendFrame(nil, index.FrameRecord, []byte("?")),
	} {
		dir, _ := filled(t)
		at := size(dir + "/journal")
		must(t, appendFrame(dir+"/journal", frame))
		if rep, err := Repair(dir, Options{}); err != nil || len(rep.Defects) != 1 {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
		if kept, err := os.ReadFile(fmt.Sprintf("%s/quarantine/journal-%d", dir, at)); err != nil || string(kept) != string(frame) {
			t.Errorf("%s: quarantine holds %q, %v", name, kept, err)
		}
	}
}

func size(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return fi.Size()
}

func appendFrame(path string, frame []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(frame)
	return errors.Join(err, f.Close())
}
