package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/sotabuild/sotabuild/engine/cache"
)

// code is an exit code.
type code int

// The exit codes (DESIGN 7).
const (
	codeOK          code = 0
	codeError       code = 1
	codeChanges     code = 2
	codePlanStale   code = 3
	codeLocked      code = 4
	codeNodeFailed  code = 5
	codeGate        code = 6
	codeUsage       code = 7
	codeInterrupted code = 130
)

// codes is the table that `sotabuild help exit-codes` prints.
var codes = []struct {
	code    code
	meaning string
}{
	{codeOK, "done, or nothing to do"},
	{codeError, "internal or machine error"},
	{codeChanges, "changes present (plan --detailed-exitcode, fmt --check)"},
	{codePlanStale, "the saved plan is stale"},
	{codeLocked, "another sotabuild holds the store"},
	{codeNodeFailed, "a node failed, a framework gave no result, or no side came through its repeats"},
	{codeGate, "a gate did not pass, the goal was not reached, or a budget left nodes for the next apply"},
	{codeUsage, "the campaign or the command line is wrong"},
	{codeInterrupted, "interrupted"},
}

// exitError ends a command with a code; hints are printed after the message.
// A nil err prints nothing: all has been said.
type exitError struct {
	code  code
	err   error
	hints []string
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func fail(c code, err error, hints ...string) error { return &exitError{c, err, hints} }

// done ends with a code and says nothing more.
func done(c code) error {
	if c == codeOK {
		return nil
	}
	return &exitError{code: c}
}

// complain prints an error for people and returns the exit code.
func complain(w io.Writer, err error) code {
	var ee *exitError
	var locked *cache.LockedError
	switch {
	case err == nil:
		return codeOK
	case errors.As(err, &ee):
		if ee.err != nil {
			fmt.Fprintf(w, "sotabuild: %v\n", ee.err)
		}
		for _, h := range ee.hints {
			fmt.Fprintf(w, "hint: %s\n", h)
		}
		return ee.code
	case errors.As(err, &locked):
		fmt.Fprintf(w, "sotabuild: %v\nhint: wait for it, or give this campaign a store of its own with --store\n", err)
		return codeLocked
	}
	fmt.Fprintf(w, "sotabuild: %v\n", err)
	return codeError
}
