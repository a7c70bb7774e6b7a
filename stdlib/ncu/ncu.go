// Package ncu compares two versions of a GPU kernel by their Nsight Compute
// counters and writes the digest of it: both sides, the difference, what bounds
// the kernel now, and exactly one next edit or the blocker (R167–R170, R177).
//
// It knows pages and reports of ncu as files. It does not run a kernel, know a
// framework, or decide when a digest is due (T07); that is its caller's.
// Package source opens the files, page reads them, match pairs kernels, and
// diagnosis judges one kernel.
//
// The main type is Digest. Make returns a value that is owned by the caller;
// Write puts it into a folder of its own, and Read checks it again. Nothing is
// concurrent. A host on which ncu cannot run, refused counters and a kernel
// that was not found are no errors but a Digest with a Blocker; an error means
// that the question was wrong (a bad file, two kernels where one is meant).
package ncu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/ncu/diagnosis"
	"github.com/sotabuild/sotabuild/stdlib/ncu/match"
	"github.com/sotabuild/sotabuild/stdlib/ncu/page"
	"github.com/sotabuild/sotabuild/stdlib/ncu/source"
)

// Options ask for one digest.
type Options struct {
	Baseline, Candidate Source
	Kernel              string // regular expression on the kernel's name, for a side that names none
	Subject             Subject
	MinBytes            float64       // bytes the shapes make the kernel move at least; 0 is unknown
	Gap                 time.Duration // GPU idle time before the candidate, from a trace; 0 is unknown
	Neighbour           string        // kernel beside it in the layer, from the pipeline analysis; empty is unknown
	Refuted             []string      // ids of edits tried before in vain
	// Fallback is the next edit chosen from trace, pipeline and source evidence
	// (R177). It is used only when there is a blocker.
	Fallback *diagnosis.Edit
	Program  string // the ncu to import reports with; empty is "ncu" on the PATH
}

// Subject is what the digest belongs to; it is copied into it.
type Subject struct {
	Round    int     `json:"round"`
	Stage    string  `json:"stage,omitempty"`
	SharePct float64 `json:"share_pct,omitempty"` // of the stage's GPU time, from the kernel table; 0 is unknown
	Shapes   string  `json:"shapes_ref,omitempty"`
}

// Source is one side.
type Source struct {
	Pages  []string // .ncu-rep, or CSV files of the details and raw pages of one report
	Kernel string   // regular expression; empty means Options.Kernel
	Commit string
	Shape  string // the harness's tag of the problem; equal tags mean the same work
	File   string // source file of the kernel
}

// Make reads both sides and compares them.
func Make(ctx context.Context, o Options) (Digest, error) {
	d := Digest{Schema: schema, Subject: o.Subject, KernelRegex: cmp.Or(o.Candidate.Kernel, o.Kernel)}
	if len(o.Baseline.Pages) == 0 || len(o.Candidate.Pages) == 0 {
		return Digest{}, errors.New("making ncu digest: it compares a baseline with a candidate (R169), so both need a report or page")
	}
	var loaded [2]side
	for i, in := range []struct {
		role string
		src  Source
	}{{"baseline", o.Baseline}, {"candidate", o.Candidate}} {
		if in.src.Kernel == "" {
			in.src.Kernel = o.Kernel
		}
		s, err := load(ctx, o.Program, in.role, in.src)
		d.files = append(d.files, s.files...)
		if b := blockerOf(in.role, err); b != nil {
			d.block(b, o.Fallback)
			return d, nil
		}
		if err != nil {
			return Digest{}, fmt.Errorf("making ncu digest: %s: %w", in.role, err)
		}
		loaded[i] = s
	}
	base, cand := loaded[0], loaded[1]
	m, err := match.Pair(base.groups, cand.groups, base.Kernel != "" && cand.Kernel != "")
	if err != nil {
		return Digest{}, fmt.Errorf("making ncu digest: %w", err)
	}
	d.Pairing = &m.Pairing
	base.groups, cand.groups = m.Baseline, m.Candidate
	d.compare(base, cand, o)
	return d, nil
}

// Missing is the digest of a comparison for which no ncu was found to collect
// one side ("baseline" or "candidate").
func Missing(o Options, role, program string) Digest {
	d := Digest{Schema: schema, Subject: o.Subject, KernelRegex: cmp.Or(o.Candidate.Kernel, o.Kernel)}
	d.block(blockerOf(role, &source.MissingTool{Program: program}), o.Fallback)
	return d
}

// NoHarness is the digest of a comparison for which one side's kernel cannot be
// launched: detail says what is missing.
func NoHarness(o Options, role, detail string) Digest {
	d := Digest{Schema: schema, Subject: o.Subject, KernelRegex: cmp.Or(o.Candidate.Kernel, o.Kernel)}
	d.block(&Blocker{Code: "no_harness", Side: role, Detail: detail,
		Remedy: "take a mapping trace with stacks and shapes (graphs off), or write a program that launches the kernel as the model does"}, o.Fallback)
	return d
}

// side is one side while it is read.
type side struct {
	Source
	role   string
	report page.Report
	tool   string // version of ncu that imported it; empty is unknown
	groups []match.Group
	files  []file
}

// file is a report or page kept beside the digest, by its name in reports/.
type file struct {
	name string
	data []byte
}

// keep takes files under names that say whose they are; a second file of the
// same page gets a number.
func (s *side) keep(files []source.File) {
	for _, f := range files {
		n := 1
		for _, have := range s.files {
			if strings.HasSuffix(have.name, f.Ending) {
				n++
			}
		}
		name := s.role + f.Ending
		if n > 1 {
			name = fmt.Sprintf("%s.%d%s", s.role, n, f.Ending)
		}
		s.files = append(s.files, file{name, f.Data})
	}
}

func load(ctx context.Context, program, role string, src Source) (side, error) {
	s := side{Source: src, role: role}
	re, err := regexp.Compile(src.Kernel)
	if err != nil {
		return s, fmt.Errorf("kernel %q is no regular expression: %w", src.Kernel, err)
	}
	var reports []page.Report
	for _, path := range src.Pages {
		got, err := source.Open(ctx, program, path)
		s.keep(got.Files)
		if err != nil {
			return s, err
		}
		if got.Tool != "" {
			s.tool = got.Tool
		}
		reports = append(reports, got.Reports...)
	}
	s.report = page.Merge(reports...)
	s.groups = match.Groups(s.report, re)
	if len(s.groups) == 0 {
		return s, &page.Refusal{Code: page.NoKernel, Text: fmt.Sprintf("no kernel matches %q; the report has %s", src.Kernel, match.List(match.Groups(s.report, anyKernel)))}
	}
	return s, nil
}

var anyKernel = regexp.MustCompile("")

// blockerOf turns an error that R177 wants recorded into a blocker, nil for
// any other error.
func blockerOf(role string, err error) *Blocker {
	var refused *page.Refusal
	var missing *source.MissingTool
	switch {
	case errors.As(err, &refused):
		return &Blocker{Code: string(refused.Code), Side: role, Detail: refused.Text, Remedy: remedyOf[refused.Code]}
	case errors.As(err, &missing):
		return &Blocker{Code: "ncu_missing", Side: role, Detail: missing.Error(),
			Remedy: "install Nsight Compute on this host, or export the report elsewhere with ncu --import FILE --csv --page raw and give the CSV"}
	}
	return nil
}

var remedyOf = map[page.RefusalCode]string{
	page.NoPermission: "let the user read GPU counters: load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0, run as root, or give the container CAP_SYS_ADMIN",
	page.NoKernel:     "name the kernel as the report does, and check that the harness launches it",
	page.ToolError:    "run the same ncu command by hand and correct what it reports",
}
