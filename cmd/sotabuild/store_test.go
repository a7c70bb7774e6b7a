package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAboutStore: a store that may not be opened gets a hint and keeps its exit
// code; what is elsewhere, or is wrong otherwise, gets none.
func TestAboutStore(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		err  error
		code code
		hint bool
	}{
		"Store":     {fmt.Errorf("opening store: %w", &fs.PathError{Op: "open", Path: filepath.Join(dir, ".sotabuild"), Err: syscall.EACCES}), codeError, true},
		"Inside":    {&fs.PathError{Op: "open", Path: filepath.Join(dir, ".sotabuild", "id"), Err: syscall.EACCES}, codeError, true},
		"WithCode":  {fail(codeUsage, &fs.PathError{Op: "open", Path: filepath.Join(dir, ".sotabuild", "id"), Err: syscall.EACCES}, "first"), codeUsage, true},
		"Elsewhere": {&fs.PathError{Op: "open", Path: filepath.Join(dir, "campaign.hcl"), Err: syscall.EACCES}, codeError, false},
		"Other":     {&fs.PathError{Op: "open", Path: filepath.Join(dir, ".sotabuild"), Err: syscall.ENOSPC}, codeError, false},
		"NoPath":    {errors.New("permission denied"), codeError, false},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			got := complain(&b, (&app{dir: dir}).aboutStore(tt.err))
			if got != tt.code || strings.Contains(b.String(), "--store FOLDER") != tt.hint {
				t.Errorf("exit %d, %q", got, b.String())
			}
		})
	}
	if err := (&app{dir: dir}).aboutStore(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
