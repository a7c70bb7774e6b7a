package ledger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

type page struct{ N int }

func TestUpdatesComeOneAfterTheOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".x", "task.json")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := Update(t.Context(), path, func(p *page) error { p.N++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if p, err := Read[page](path); err != nil || p.N != 20 {
		t.Errorf("after 20 additions: %+v, %v", p, err)
	}
}

func TestRefusedChangeLeavesTheOldContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".x", "task.json")
	if p, err := Read[page](path); err != nil || p.N != 0 {
		t.Errorf("nothing is written yet: %+v, %v", p, err)
	}
	if err := Update(t.Context(), path, func(p *page) error { p.N = 1; return nil }); err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	if err := Update(t.Context(), path, func(p *page) error { p.N = 2; return no }); err != no {
		t.Errorf("the error is %v", err)
	}
	if p, err := Read[page](path); err != nil || p.N != 1 {
		t.Errorf("%+v, %v; want 1", p, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 2 {
		t.Errorf("the folder holds %v, want the file and its lock", entries)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read[page](path); err == nil {
		t.Error("half a file was read")
	}
}

func TestLockIsWaitedForWhileTheContextLives(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".x", "task.json")
	err := Update(t.Context(), path, func(*page) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Update(ctx, path, func(*page) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("a second writer: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNotesLeaveOneFile replaces a note by another, and by a third.
func TestNotesLeaveOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "task.json")
	for n := range 3 {
		if err := Note(path, page{n}); err != nil {
			t.Fatal(err)
		}
		if p, err := Read[page](path); err != nil || p.N != n {
			t.Errorf("note %d: %+v, %v", n, p, err)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("the folder holds %v, %v", entries, err)
		}
	}
}
