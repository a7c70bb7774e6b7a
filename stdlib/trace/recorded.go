package trace

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
)

// RecordedOptions ask what launched a kernel.
type RecordedOptions struct {
	Path    string
	Mapping string // trace that has the operators, where Path's graphs hide them; "" for none
	Kernel  string // regular expression on the kernel's name
	Stage   string // "" takes all
	Log     io.Writer
}

// Recorded is the operator that launched a kernel, with its inputs as the
// trace wrote them: JSON texts, "" where they are not recorded.
type Recorded struct {
	Trace    string // base name of the file that has the operator
	SHA256   string
	Kernel   string // the name, without return type and arguments
	Function string // the function's bare name, by which ncu selects
	Stage    string
	Launches int   // of the kernel in the stage
	Time     int64 // ns, of these
	Op       string
	Dims     string
	Types    string
	Strides  string
	Concrete string
	Notes    []string // choices among several
}

// FindRecorded finds the kernel that takes most of the time among those that
// match, and of its operators the one that launched most of that. A kernel
// without an operator is no error: Op is "" then. The error says which kernels
// there are when none matches.
func FindRecorded(ctx context.Context, o RecordedOptions) (Recorded, error) {
	re, err := regexp.Compile(o.Kernel)
	if err != nil || o.Kernel == "" {
		return Recorded{}, fmt.Errorf("the kernel is %q; write a regular expression on its name", o.Kernel)
	}
	p, err := linked(ctx, o.Path, o.Log)
	if err != nil {
		return Recorded{}, err
	}
	out, err := chosen(p, re, o.Stage)
	if err != nil {
		return out, fmt.Errorf("%s: %w", o.Path, err)
	}
	path := o.Path
	op := launcher(p, out.Kernel, o.Stage)
	if op < 0 && o.Mapping != "" {
		if p, err = linked(ctx, o.Mapping, o.Log); err != nil {
			return Recorded{}, fmt.Errorf("reading the mapping trace: %w", err)
		}
		path, op = o.Mapping, launcher(p, out.Kernel, "")
	}
	out.Trace, out.SHA256 = base(path), p.Trace.Meta.SHA256
	if op < 0 {
		return out, nil
	}
	rec := p.Trace.Ops[op]
	out.Op, out.Dims, out.Types = p.Trace.Name(rec.Name), p.Trace.Name(rec.Dims), p.Trace.Name(rec.Types)
	return out, out.rest(ctx, path, rec.External)
}

func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }

// chosen is the kernel among those that match.
func chosen(p *profile.Profile, re *regexp.Regexp, stage string) (Recorded, error) {
	type total struct {
		n  int
		ns int64
	}
	matching, all := map[string]total{}, map[string]int64{}
	for i, g := range p.Trace.GPU {
		if stage != "" && string(p.Links.Events[i].Stage) != stage {
			continue
		}
		s := p.Symbol(int32(i))
		all[s.Canonical] += g.Dur
		if re.MatchString(s.Canonical) || re.MatchString(s.Exact) {
			t := matching[s.Canonical]
			matching[s.Canonical] = total{t.n + 1, t.ns + g.Dur}
		}
	}
	if len(matching) == 0 {
		return Recorded{}, fmt.Errorf("no kernel matches %q%s; the largest are %s", re, inStage(stage), strings.Join(largest(all, 5), ", "))
	}
	times := map[string]int64{}
	for name, t := range matching {
		times[name] = t.ns
	}
	order := largest(times, len(times))
	out := Recorded{Kernel: order[0], Function: functionOf(order[0]), Stage: stage, Launches: matching[order[0]].n, Time: matching[order[0]].ns}
	if len(order) > 1 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d kernels match; the largest is taken. The others: %s", len(order), strings.Join(order[1:min(len(order), 6)], ", ")))
	}
	return out, nil
}

func inStage(stage string) string {
	if stage == "" {
		return ""
	}
	return " in the stage " + stage
}

// largest is up to n names by falling value.
func largest(m map[string]int64, n int) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if m[a] != m[b] {
			if m[a] > m[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return names[:min(n, len(names))]
}

// launcher is the operator, index into Trace.Ops, that launched most of a
// kernel's time with one set of shapes; -1 where none is known.
func launcher(p *profile.Profile, canonical, stage string) int32 {
	type inputs struct{ name, dims, types uint32 }
	times, first := map[inputs]int64{}, map[inputs]int32{}
	best := int32(-1)
	for i, g := range p.Trace.GPU {
		e := p.Links.Events[i]
		if e.Op < 0 || p.Symbol(int32(i)).Canonical != canonical || stage != "" && string(e.Stage) != stage {
			continue
		}
		op := p.Trace.Ops[e.Op]
		k := inputs{op.Name, op.Dims, op.Types}
		if _, ok := first[k]; !ok {
			first[k] = e.Op
		}
		times[k] += g.Dur
		if b := best; b < 0 || times[k] > times[inputs{p.Trace.Ops[b].Name, p.Trace.Ops[b].Dims, p.Trace.Ops[b].Types}] {
			best = first[k]
		}
	}
	return best
}

// functionOf is a kernel's bare name: no name spaces, no template arguments.
func functionOf(canonical string) string {
	s := strings.ReplaceAll(canonical, "(anonymous namespace)::", "")
	if i := strings.IndexAny(s, "<("); i > 0 {
		s = s[:i]
	}
	if i := strings.LastIndex(s, "::"); i >= 0 {
		s = s[i+2:]
	}
	if i := strings.LastIndexByte(s, ' '); i >= 0 {
		s = s[i+1:]
	}
	return s
}

// errFound ends the reading when the operator was seen.
var errFound = errors.New("found")

// rest takes what package read does not keep, layouts and values, in a second
// reading that ends at the operator. A file that cannot be read so far leaves
// them out, with a note.
func (r *Recorded) rest(ctx context.Context, path string, external int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := bufio.NewReaderSize(f, 256<<10)
	var in io.Reader = b
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		if in, err = gzip.NewReader(b); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	err = events(ctx, json.NewDecoder(in), func(e json.RawMessage) error {
		var op struct {
			Cat, Name string
			Args      struct {
				External json.RawMessage `json:"External id"`
				Strides  json.RawMessage `json:"Input Strides"`
				Concrete json.RawMessage `json:"Concrete Inputs"`
			}
		}
		if json.Unmarshal(e, &op) != nil || op.Name != r.Op || op.Cat != "cpu_op" ||
			strings.Trim(string(op.Args.External), `"`) != fmt.Sprint(external) {
			return nil // another event, or one that is odd
		}
		r.Strides, r.Concrete = string(op.Args.Strides), string(op.Args.Concrete)
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		err = errors.New("the operator was not found again")
	}
	r.Notes = append(r.Notes, fmt.Sprintf("layouts and values were not read: %v", err))
	return nil
}

// events calls visit for each element of traceEvents, or of the file where it
// is a list.
func events(ctx context.Context, d *json.Decoder, visit func(json.RawMessage) error) error {
	list := func() error {
		for n := 0; d.More(); n++ {
			if n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			var e json.RawMessage
			if err := d.Decode(&e); err != nil {
				return err
			}
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	}
	start, err := d.Token()
	switch {
	case err != nil:
		return err
	case start == json.Delim('['):
		return list()
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key == "traceEvents" {
			if _, err := d.Token(); err != nil {
				return err
			}
			return list()
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return err
		}
	}
	return nil
}
