package statcache

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFoldersNobodyAsksForAreForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "files")
	day := func(n int) func() time.Time {
		return func() time.Time { return time.Date(2026, 1, 1+n, 12, 0, 0, 0, time.UTC) }
	}
	open := func(n int) *Cache {
		t.Helper()
		c, err := Open(path, day(n))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	save := func(c *Cache) {
		t.Helper()
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
	}
	c := open(0)
	c.Put("/used", Entry{Name: "a"})
	c.Put("/unused", Entry{Name: "a"})
	save(c)
	c = open(forgetDays)
	if len(c.Entries("/used")) != 1 {
		t.Fatal("forgotten too early")
	}
	save(c) // /unused is exactly at the bound: kept
	c = open(forgetDays + 1)
	c.Put("/new", Entry{Name: "a"})
	save(c)
	c = open(forgetDays + 1)
	if len(c.Entries("/used")) != 1 || len(c.Entries("/new")) != 1 || len(c.Entries("/unused")) != 0 {
		t.Errorf("used %v, new %v, unused %v", c.Entries("/used"), c.Entries("/new"), c.Entries("/unused"))
	}
}

func TestPutKeepsTheOrderFindNeeds(t *testing.T) {
	c, err := Open("", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"m", "a", "\xff", "z z", "B", "m\n", "m"}
	for i, name := range names {
		c.Put("/d", Entry{Name: name, Stamp: Stamp{Size: int64(i)}, Digest: [32]byte{byte(i)}})
	}
	known := c.Entries("/d")
	if !slices.IsSortedFunc(known, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) || len(known) != 6 {
		t.Errorf("entries %+v", known)
	}
	if d, ok := Find(known, "m", Stamp{Size: 6}); !ok || d[0] != 6 {
		t.Errorf("the newer of two: %v, %v", d[0], ok)
	}
	if _, ok := Find(known, "m", Stamp{Size: 0}); ok {
		t.Error("found by an old stamp")
	}
}

// FuzzDecode reads any bytes as a cache file. It must not panic, and what it
// takes must be in order.
func FuzzDecode(f *testing.F) {
	c, err := Open("", time.Now)
	if err != nil {
		f.Fatal(err)
	}
	c.Put("/d", Entry{Name: "a"})
	c.Put("/d", Entry{Name: "b"})
	whole := c.encode()
	f.Add(whole)
	f.Add(whole[len(statHead)+12+6+2:])
	f.Fuzz(func(t *testing.T, b []byte) {
		dirs, _ := decodeFolders(b)
		raws := [][]byte{b}
		for _, d := range dirs {
			raws = append(raws, d.raw)
		}
		for _, raw := range raws {
			entries, ok := decodeEntries(raw)
			if ok && !slices.IsSortedFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) {
				t.Fatalf("out of order: %+v", entries)
			}
		}
	})
}
