package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/fuse"
	"github.com/sotabuild/sotabuild/stdlib/trace/host"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/mapping"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
	"github.com/sotabuild/sotabuild/stdlib/trace/show"
	"github.com/sotabuild/sotabuild/stdlib/trace/triage"
)

// TriageOptions are the arguments of `trace triage`.
type TriageOptions struct {
	Paths   []string // files and folders
	Mapping string   // a trace with sources (graphs off, or a capture); "" for none
	// Name and MappingName stand for the one path and the mapping's in the
	// report, and in rules that go by a file's name; "" is the path.
	Name, MappingName string
	Framework         string // what was traced; "" lets the trace tell
	// Host takes the host's operators for the work of a trace without a device
	// (see package host); a trace with one is then an error.
	Host     bool
	Baseline string // an earlier trace, to tell regressed fusions; "" for none
	Config   string // the model's config.json; "" for none
	Tree     string // a checkout of the framework, to check candidate paths; "" for none
	Format   Format
	Cutoff   float64   // 0..1; shares are at least this to be shown
	Log      io.Writer // progress; nil for none
}

// TriageResult is what `--format json` prints.
type TriageResult struct {
	Mapping *read.Meta      `json:"mapping,omitempty"`
	Reports []triage.Report `json:"reports"`
	Ranks   []RankRow       `json:"ranks,omitempty"`
	Notes   []string        `json:"notes,omitempty"`
}

// Triage reads the traces one after another and writes the three tables of
// each framework and stage to w. Of the ranks of one run it shows the lowest
// and compares the rest. Files that are no trace or hold no GPU work are an
// error when they were named, and a note when they were found in a folder; if
// nothing is left, that is an error.
func Triage(ctx context.Context, o TriageOptions, w io.Writer) error {
	res, err := TriageOf(ctx, o)
	if err != nil {
		return err
	}
	// Written at once: a broken pipe half way must not look like a short report.
	var out bytes.Buffer
	switch o.Format {
	case JSON:
		err = writeJSON(&out, res)
	case CSV:
		err = triageCSV(&out, res)
	default:
		err = triageMarkdown(&out, res, o.Cutoff)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

// TriageOf is the values that Triage prints, with the same errors.
func TriageOf(ctx context.Context, o TriageOptions) (TriageResult, error) {
	var res TriageResult
	if !(o.Cutoff >= 0 && o.Cutoff <= 1) { // not a number, too
		return res, fmt.Errorf("the cut-off is a share from 0 to 1, not %g", o.Cutoff)
	}
	config, _, err := loadConfig(o.Config)
	if err != nil {
		return res, err
	}
	to := triage.Options{Cutoff: o.Cutoff, Catalogue: fuse.Builtin()}
	if o.Host {
		to.NoIdle = "the work is the host's"
	}
	if o.Tree != "" {
		to.Tree = os.DirFS(o.Tree)
	}
	if o.Mapping != "" {
		p, err := o.profile(ctx, o.Mapping, o.MappingName)
		if err != nil {
			return res, fmt.Errorf("reading the mapping trace: %w", err)
		}
		meta := p.Trace.Meta
		res.Mapping, to.Mapping = &meta, mapping.Build(p)
		part := partial("the mapping trace", p)
		if to.Mapping.Launches == 0 {
			return res, fmt.Errorf("the mapping trace %q shows no launch of a named kernel%s", o.Mapping, after("; ", part))
		}
		res.Notes = append(res.Notes, part...)
	}
	if o.Baseline != "" {
		p, err := o.profile(ctx, o.Baseline, "")
		if err != nil {
			return res, fmt.Errorf("reading the baseline trace: %w", err)
		}
		if to.Baseline, err = layersOf(p, config); err != nil {
			return res, err
		}
		res.Notes = append(res.Notes, partial("the baseline trace", p)...)
	}
	inputs, notes, err := Inputs(o.Paths)
	if err != nil {
		return res, err
	}
	res.Notes = append(res.Notes, notes...)
	for _, in := range inputs {
		r, err := o.one(ctx, in, config, to)
		if in.Found && (errors.Is(err, ErrNoGPU) || errors.Is(err, read.ErrNoTrace) || errors.Is(err, host.ErrNone)) {
			res.Notes = append(res.Notes, fmt.Sprintf("Set aside %s: %v.", in.Path, err))
			continue
		}
		if err != nil {
			return res, err
		}
		res.Reports = append(res.Reports, r)
	}
	if len(res.Reports) == 0 {
		return res, fmt.Errorf("%w: none of the %d files has any; profile with GPU activities", ErrNoGPU, len(inputs))
	}
	res.Ranks = compareRanks(res.Reports)
	return res, nil
}

// partial is what a truncated trace says of itself, by the name that it has in a
// triage; nil of a whole one.
func partial(name string, p *profile.Profile) []string {
	if !p.Trace.Counts.Partial {
		return nil
	}
	return []string{fmt.Sprintf("Of %s only a part was read: %s", name, strings.Join(p.Trace.Counts.Warnings, " "))}
}

// after is the list behind a separator; "" of none.
func after(separator string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return separator + strings.Join(list, " ")
}

// profile reads and links one of the traces.
func (o TriageOptions) profile(ctx context.Context, path, name string) (*profile.Profile, error) {
	t, err := load(ctx, path, o.Log)
	if err != nil {
		return nil, err
	}
	if o.Host {
		if t, err = host.Work(t); err != nil {
			return nil, fmt.Errorf("%q: %w", path, err)
		}
	}
	if name != "" {
		t.Meta.Path = name
	}
	p := profile.Build(t)
	if o.Framework != "" {
		p.Framework = o.Framework
	}
	return p, nil
}

// fewJoined is the share of joined kernels below which the mapping trace is
// likely another program's.
const fewJoined = 0.1

func (o TriageOptions) one(ctx context.Context, in Input, c layers.Config, to triage.Options) (triage.Report, error) {
	p, err := o.profile(ctx, in.Path, o.Name)
	if err != nil {
		return triage.Report{}, err
	}
	if len(p.Trace.GPU) == 0 {
		return triage.Report{}, fmt.Errorf("%w: %q holds %d events of the host only%s", ErrNoGPU, p.Trace.Meta.Path, p.Trace.Counts.Events, after("; ", partial("it", p)))
	}
	l, err := layersOf(p, c)
	if err != nil {
		return triage.Report{}, err
	}
	r := triage.Build(p, l, to)
	if to.Mapping != nil && r.Coverage.Joined < fewJoined {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Only %.1f %% of the kernels were joined to the mapping trace: is it of the same model, framework and GPU, and not the trace itself?", 100*r.Coverage.Joined))
	}
	return r, nil
}

// shown reports whether the tables of report i are printed: of several ranks
// of one framework and one set of stages only the lowest.
func shown(list []triage.Report, i int) bool {
	for j, r := range list {
		if j != i && sameRun(r, list[i]) && r.Rank >= 0 && r.Rank < list[i].Rank {
			return false
		}
	}
	return true
}

func sameRun(a, b triage.Report) bool {
	return a.Framework == b.Framework && stagesOf(a) == stagesOf(b) && a.Input.World == b.Input.World
}

func stagesOf(r triage.Report) string {
	var s strings.Builder
	for _, x := range r.Stages {
		if x.Share >= 0.05 {
			s.WriteString(string(x.Stage) + " ")
		}
	}
	return s.String()
}

func triageMarkdown(w io.Writer, res TriageResult, cutoff float64) error {
	fmt.Fprintf(w, "# Triage View\n\n")
	if res.Mapping != nil {
		fmt.Fprintf(w, "Mapping trace: %s (sha256 %s)\n\n", res.Mapping.Path, res.Mapping.SHA256)
	}
	if err := lines(w, "Note: ", res.Notes); err != nil {
		return err
	}
	for i, r := range res.Reports {
		if !shown(res.Reports, i) {
			continue
		}
		if err := reportMarkdown(w, r, cutoff); err != nil {
			return err
		}
	}
	if len(res.Ranks) > 0 {
		return rankTable(res.Ranks).Markdown(w, 2)
	}
	return nil
}

func reportMarkdown(w io.Writer, r triage.Report, cutoff float64) error {
	rank := ""
	if r.Rank >= 0 {
		rank = fmt.Sprintf(", rank %d", r.Rank)
	}
	fmt.Fprintf(w, "\n## %s%s\n\nInput: %s (sha256 %s)\n", r.Framework, rank, r.Input.Path, r.Input.SHA256)
	if r.Device != "" {
		fmt.Fprintf(w, "Device: %s\n", r.Device)
	}
	c := r.Coverage
	var rules []string
	for _, x := range c.Rules {
		rules = append(rules, fmt.Sprintf("%.1f %% by %s", 100*x.Share, x.Rule))
	}
	if len(rules) == 0 {
		rules = []string{"no step annotation"}
	}
	fmt.Fprintf(w, "Coverage of GPU time: stage %.1f %% (%s), launch %.1f %%, operator %.1f %%, Python line %.1f %%, unknown family %.1f %%",
		100*c.Staged, strings.Join(rules, ", "), 100*c.Launch, 100*c.Op, 100*c.Location, 100*c.Unknown)
	if c.Joined > 0 {
		fmt.Fprintf(w, "; kernels joined to the mapping %.1f %%", 100*c.Joined)
	}
	fmt.Fprint(w, "\n")
	if err := lines(w, "Warning: ", r.Warnings); err != nil {
		return err
	}
	for _, s := range r.Stages {
		if s.Stage == "other" && s.Share < cutoff {
			fmt.Fprintf(w, "\nOutside any stage: %d events, %.2f %% of GPU time; no tables.\n", s.Events, 100*s.Share)
			continue
		}
		fmt.Fprintf(w, "\n### %s\n\n%d events; GPU time %.3f ms in sum (kernels %.3f ms), %.3f ms busy (union); %.2f %% of the file.\n\n",
			s.Stage, s.Events, ms(s.Times.Sum), ms(s.Times.Kernels), ms(s.Times.Busy), 100*s.Share)
		if err := lines(w, "Note: ", s.Notes); err != nil {
			return err
		}
		for _, t := range show.Triage(s, cutoff) {
			if err := t.Markdown(w, 4); err != nil {
				return err
			}
		}
	}
	return nil
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// triageCSV writes one block a table, all kernels uncut. The first four
// columns say which table, framework, stage and file a row belongs to.
func triageCSV(w io.Writer, res TriageResult) error {
	head := []string{"framework", "stage", "file"}
	for _, r := range res.Reports {
		for _, s := range r.Stages {
			tables := show.Triage(s, 0)
			tables[0] = show.KernelCSV(s)
			for _, t := range tables {
				if err := t.CSV(w, []string{r.Framework, string(s.Stage), r.Input.Path}, head); err != nil {
					return err
				}
			}
		}
	}
	if len(res.Ranks) > 0 {
		return rankTable(res.Ranks).CSV(w, []string{"", "", ""}, head)
	}
	return nil
}
