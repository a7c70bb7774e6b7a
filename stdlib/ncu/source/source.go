// Package source opens what a side of a digest is given as: CSV pages of
// Nsight Compute, or its binary reports through an installed ncu.
//
// It knows files and the ncu program. It does not know which kernel matters or
// what is compared with what. The main type is Opened, owned by the caller;
// nothing is concurrent and nothing outlives a call, the child process
// included. A *page.Refusal is what ncu said instead of data, a *MissingTool
// that there is no ncu; both are reasons to write down rather than to fail.
package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
)

// maxReport bounds a report or page that is kept beside the digest.
const maxReport = 256 << 20

// Opened is what one path gave: a page gives itself, a report its two pages.
type Opened struct {
	Reports []page.Report
	Tool    string // version of the ncu that imported a report; empty for CSV
	Files   []File
}

// File is a file worth keeping beside the digest.
type File struct {
	Ending string // ".ncu-rep", ".raw.csv", ".details.csv.gz"
	Data   []byte
}

// Open reads one path. Program is the ncu to import reports with; empty is
// "ncu" on the PATH. Files that could be read are returned beside an error,
// because a blocker keeps them as evidence.
func Open(ctx context.Context, program, path string) (Opened, error) {
	data, err := readFile(path)
	if err != nil {
		return Opened{}, err
	}
	read := readPage
	// The first bytes of a report; its name may lie.
	if bytes.HasPrefix(data, []byte("NVR\x00")) || strings.HasSuffix(path, ".ncu-rep") {
		read = func(data []byte) (Opened, error) { return importReport(ctx, program, path, data) }
	}
	o, err := read(data)
	if err != nil {
		return o, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

func readPage(data []byte) (Opened, error) {
	r, err := page.Read(bytes.NewReader(data))
	ending := ".csv"
	if err == nil {
		ending = "." + string(r.Launches[0].Pages[0]) + ".csv"
	}
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		ending += ".gz"
	}
	o := Opened{Files: []File{{ending, data}}}
	if err == nil {
		o.Reports = []page.Report{r}
	}
	return o, err
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading report: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err != nil {
		return nil, fmt.Errorf("reading report: %w", err)
	}
	if len(data) > maxReport {
		return nil, fmt.Errorf("reading report: larger than %d bytes; profile fewer launches (-c 1)", maxReport)
	}
	return data, nil
}

// MissingTool says that no ncu is installed to import a report with.
type MissingTool struct{ Program string }

func (e *MissingTool) Error() string {
	return fmt.Sprintf("counters and reports need Nsight Compute, and no program %q was found", e.Program)
}

// importReport asks ncu for both pages of a report: raw for the counters,
// details for what the shipped rules say. It needs no GPU.
func importReport(ctx context.Context, program, path string, data []byte) (Opened, error) {
	o := Opened{Files: []File{{".ncu-rep", data}}}
	if program == "" {
		program = "ncu"
	}
	bin, err := exec.LookPath(program)
	if err != nil {
		return o, &MissingTool{program}
	}
	abs, err := filepath.Abs(path) // so that no path can be read as an option
	if err != nil {
		return o, fmt.Errorf("importing report: %w", err)
	}
	version, err := run(ctx, bin, "--version")
	if err != nil {
		return o, fmt.Errorf("asking ncu for its version: %w", err)
	}
	if m := toolVersion.FindSubmatch(version); m != nil {
		o.Tool = string(m[1])
	}
	for _, kind := range []page.Kind{page.Raw, page.Details} {
		text, err := run(ctx, bin, "--import", abs, "--csv", "--page", string(kind), "--print-units", "base")
		if err != nil {
			return o, fmt.Errorf("importing the %s page: %w", kind, err)
		}
		if len(bytes.TrimSpace(text)) == 0 { // with exit code 0
			return o, &page.Refusal{Code: page.NoKernel, Text: "the report holds no kernel"}
		}
		o.Files = append(o.Files, File{"." + string(kind) + ".csv", text})
		r, err := page.Read(bytes.NewReader(text))
		if err != nil {
			return o, fmt.Errorf("importing the %s page: %w", kind, err)
		}
		o.Reports = append(o.Reports, r)
	}
	return o, nil
}

var toolVersion = lazyregexp.New(`Version ([0-9][0-9.]*)`)

// run runs ncu in the C locale, so that its numbers read one way only. A
// failure that ncu explains is a *page.Refusal.
func run(ctx context.Context, bin string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LANG=C")
	cmd.WaitDelay = 5 * time.Second
	out, errs := &bounded{max: maxReport}, &bounded{max: 1 << 16}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil && out.cut {
		err = fmt.Errorf("output larger than %d bytes", maxReport)
	}
	if err != nil {
		said := append(out.b.Bytes(), errs.b.Bytes()...)
		var refused *page.Refusal
		if _, perr := page.Read(bytes.NewReader(said)); errors.As(perr, &refused) {
			return nil, refused
		}
		return nil, fmt.Errorf("running %s: %w: %s", filepath.Base(bin), err, strings.TrimSpace(string(said[:min(len(said), 500)])))
	}
	return out.b.Bytes(), nil
}

// bounded keeps the first max bytes and swallows the rest, so that the writer
// is not stopped in the middle.
type bounded struct {
	b   bytes.Buffer
	max int
	cut bool
}

func (w *bounded) Write(p []byte) (int, error) {
	room := w.max - w.b.Len()
	if len(p) > room {
		w.cut = true
		w.b.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return w.b.Write(p)
}
