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

// TestAboutStore: a store that may not be opened or cannot be written gets the
// hint of its cause and keeps its exit code; what is elsewhere, or is wrong
// otherwise, gets none.
func TestAboutStore(t *testing.T) {
	dir := t.TempDir()
	at := func(name string, err error) error {
		return &fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: err}
	}
	for name, tt := range map[string]struct {
		err  error
		code code
		hint string
	}{
		"Store":     {fmt.Errorf("opening store: %w", at(".sotabuild", syscall.EACCES)), codeError, "--store FOLDER"},
		"Inside":    {at(".sotabuild/id", syscall.EACCES), codeError, "as the store's owner"},
		"WithCode":  {fail(codeUsage, at(".sotabuild/id", syscall.EACCES), "first"), codeUsage, "as the store's owner"},
		"Full":      {errors.Join(errors.New("more"), fmt.Errorf("storing: %w", at(".sotabuild/tmp/object-1", syscall.ENOSPC))), codeError, "make room on its disk"},
		"Quota":     {at(".sotabuild/lock", syscall.EDQUOT), codeError, "within the quota"},
		"ReadOnly":  {at(".sotabuild/lock", syscall.EROFS), codeError, "mounted read-only"},
		"Elsewhere": {at("campaign.hcl", syscall.EACCES), codeError, ""},
		"FullOther": {at("runs/report.md", syscall.ENOSPC), codeError, ""},
		"Other":     {at(".sotabuild", syscall.EIO), codeError, ""},
		"NoPath":    {errors.New("permission denied"), codeError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			got := complain(&b, (&app{dir: dir}).aboutStore(tt.err))
			hints := strings.Count(b.String(), "hint: ") - strings.Count(b.String(), "hint: first")
			if got != tt.code || !strings.Contains(b.String(), tt.hint) || hints != map[bool]int{true: 1}[tt.hint != ""] {
				t.Errorf("exit %d, %q", got, b.String())
			}
		})
	}
	if err := (&app{dir: dir}).aboutStore(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
