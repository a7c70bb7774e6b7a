package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/sotabuild/sotabuild/engine/plan"
)

// style writes colours or nothing. Colour never carries a meaning alone.
type style struct{ on bool }

func (a *app) style(w io.Writer) style {
	switch a.color {
	case "always":
		return style{true}
	case "never":
		return style{false}
	}
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return style{false}
	}
	if os.Getenv("CLICOLOR_FORCE") != "" && os.Getenv("CLICOLOR_FORCE") != "0" {
		return style{true}
	}
	return style{terminal(w)}
}

// terminal reports whether w is one.
func terminal(w io.Writer) bool {
	f, ok := file(w)
	return ok && term.IsTerminal(int(f.Fd()))
}

// redraws reports whether what w shows can be drawn again in its place: it is a
// terminal with a cursor, and nobody keeps it as a log.
func redraws(w io.Writer) bool {
	return terminal(w) && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == ""
}

func (s style) paint(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(t string) string   { return s.paint("1", t) }
func (s style) dim(t string) string    { return s.paint("2", t) }
func (s style) red(t string) string    { return s.paint("31", t) }
func (s style) green(t string) string  { return s.paint("32", t) }
func (s style) yellow(t string) string { return s.paint("33", t) }

// mark colours a plan mark.
func (s style) mark(v plan.Verdict) string {
	m := string(v)
	switch v {
	case plan.New:
		return s.green(m)
	case plan.Stale, plan.Later:
		return s.yellow(m)
	case plan.Blocked:
		return s.red(m)
	}
	return s.dim(m)
}
