package read

import (
	"bytes"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/scan"
)

// builder fills a Trace from events.
type builder struct {
	t       *Trace
	w       *scan.Window
	ev      scan.Event
	seen    bool // traceEvents has begun
	timed   bool // Meta.First is set
	kinds   map[kindKey]*int
	last    kindCache
	tracks  map[string]uint32
	configs map[Config]uint32
	scratch []byte
	track   trackCache
}

type kindKey struct{ cat, phase string }

// kindCache and trackCache hold the answer for the previous event: neighbours
// in a trace mostly share both.
type kindCache struct {
	cat   []byte
	phase byte
	n     *int
	class class
}

type trackCache struct {
	pid, tid []byte
	id       uint32
}

// class is what the reader does with a category.
type class uint8

const (
	ignored class = iota
	gpuKernel
	gpuMemcpy
	gpuMemset
	call
	op
	frame
	note
	gpuNote
	overhead
)

// classes is the table of categories that are kept, in lower case: old Kineto
// spelled Kernel, Runtime and Operator. Nothing is guessed from arguments.
var classes = map[string]class{
	"kernel":              gpuKernel,
	"gpu_memcpy":          gpuMemcpy,
	"memcpy":              gpuMemcpy,
	"gpu_memset":          gpuMemset,
	"memset":              gpuMemset,
	"cuda_runtime":        call,
	"cuda_driver":         call,
	"runtime":             call,
	"driver":              call,
	"cpu_op":              op,
	"operator":            op,
	"python_function":     frame,
	"user_annotation":     note,
	"gpu_user_annotation": gpuNote,
	"overhead":            overhead,
}

const maxKinds = 1000 // different categories counted one by one

func newBuilder(name string, w *scan.Window) *builder {
	return &builder{
		t: &Trace{
			Meta:    Meta{Path: name, Rank: -1},
			Names:   newNames(),
			Configs: []Config{{}},
		},
		w:       w,
		kinds:   map[kindKey]*int{},
		tracks:  map[string]uint32{},
		configs: map[Config]uint32{{}: 0},
	}
}

// add takes one event. The slices of e are not kept.
func (b *builder) add(e *scan.Event) {
	if len(e.Phase) == 0 {
		b.t.Counts.Broken++
		return
	}
	b.t.Counts.Events++
	c := b.count(e)
	start, okStart := scan.Nanoseconds(e.TS)
	// The earliest time of the file is where viewers put their zero; metadata
	// records do not count.
	if okStart && e.Phase[0] != 'M' && (!b.timed || start < b.t.Meta.First) {
		b.t.Meta.First, b.timed = start, true
	}
	if c == ignored || e.Phase[0] != 'X' || len(e.Phase) != 1 {
		return
	}
	dur, okDur := scan.Nanoseconds(e.Dur)
	if !okStart || !okDur || start > 1<<62 || start < -1<<62 || dur > 1<<61 {
		b.t.Counts.NoTime++
		return
	}
	if dur < 0 {
		b.t.Counts.Negative++
		dur = 0
	}
	s := Span{Start: start, End: start + dur}
	switch c {
	case overhead:
		b.t.Counts.Overhead += dur
		return
	case frame:
		s.Track = b.trackOf(e)
		s.Name = b.t.Names.internFrame(e.Name)
		b.t.Frames.add(s)
		return
	}
	s.Track = b.trackOf(e)
	s.Name = b.t.Names.intern(e.Name)
	switch c {
	case note:
		b.t.Notes = append(b.t.Notes, s)
	case gpuNote:
		b.t.GPUNotes = append(b.t.GPUNotes, s)
	case call:
		b.t.Calls = append(b.t.Calls, b.callOf(s, e.Args))
	case op:
		b.t.Ops = append(b.t.Ops, b.opOf(s, e.Args))
	default:
		b.t.GPU = append(b.t.GPU, b.gpuOf(s, Kind(c-gpuKernel), e))
	}
}

// count counts the event under its category and phase and classifies it.
func (b *builder) count(e *scan.Event) class {
	l := &b.last
	if l.n != nil && l.phase == e.Phase[0] && len(e.Phase) == 1 && bytes.Equal(l.cat, e.Cat) {
		*l.n++
		return l.class
	}
	key := kindKey{cat: "None", phase: string(e.Phase)}
	if e.Cat != nil {
		key.cat = string(scan.Unescape(e.Cat))
	}
	n, ok := b.kinds[key]
	if !ok {
		if len(b.kinds) >= maxKinds {
			key = kindKey{cat: "(other)", phase: "?"}
		}
		if n, ok = b.kinds[key]; !ok {
			n = new(int)
			b.kinds[key] = n
		}
	}
	*n++
	*l = kindCache{
		cat:   append(l.cat[:0], e.Cat...),
		phase: e.Phase[0],
		n:     n,
		class: classes[strings.ToLower(key.cat)],
	}
	if len(e.Phase) != 1 {
		l.n = nil
	}
	return l.class
}

// trackOf interns the (pid, tid) pair.
func (b *builder) trackOf(e *scan.Event) uint32 {
	c := &b.track
	if c.id != 0 && bytes.Equal(c.pid, e.PID) && bytes.Equal(c.tid, e.TID) {
		return c.id - 1
	}
	c.pid = append(c.pid[:0], e.PID...)
	c.tid = append(c.tid[:0], e.TID...)
	b.scratch = append(append(append(b.scratch[:0], e.PID...), 0), e.TID...)
	id, ok := b.tracks[string(b.scratch)]
	if !ok {
		id = uint32(len(b.t.Tracks))
		t := Track{PID: string(scan.Unescape(scan.Unquote(e.PID))), TID: string(scan.Unescape(scan.Unquote(e.TID)))}
		if strings.HasPrefix(t.PID, "[") {
			if end := strings.IndexByte(t.PID, ']'); end > 0 {
				t.Group = t.PID[:end+1]
			}
		}
		b.t.Tracks = append(b.t.Tracks, t)
		b.tracks[string(b.scratch)] = id
	}
	c.id = id + 1
	return id
}

func (b *builder) callOf(s Span, args []byte) Call {
	c := Call{Span: s}
	scan.Fields(args, func(key, value []byte) {
		switch string(key) {
		case "correlation":
			c.Correlation, _ = scan.Integer(value)
		case "External id", "external id":
			c.External, _ = scan.Integer(value)
		case "kernel":
			c.Kernel = b.text(value)
		}
	})
	return c
}

func (b *builder) opOf(s Span, args []byte) Op {
	o := Op{Span: s}
	scan.Fields(args, func(key, value []byte) {
		switch string(key) {
		case "External id", "external id":
			o.External, _ = scan.Integer(value)
		case "Input Dims", "Input dims":
			o.Dims = b.raw(value)
		case "Input type":
			o.Types = b.raw(value)
		}
	})
	return o
}

// maxShapes bounds the text of shapes that is kept; longer lists belong to
// fused optimizer calls, of which no bound is computed.
const maxShapes = 2 << 10

// raw interns a value as spelled, brackets and quotes included.
func (b *builder) raw(value []byte) uint32 {
	if len(value) > maxShapes || value[0] != '[' {
		return 0
	}
	b.scratch = compact(b.scratch[:0], value)
	return b.t.Names.intern(b.scratch)
}

// compact appends value without the white space outside strings, so that
// pretty-printed files give the same text.
func compact(out, value []byte) []byte {
	quoted := false
	for i, c := range value {
		if c == '"' && (i == 0 || value[i-1] != '\\') {
			quoted = !quoted
		}
		if quoted || !scan.IsSpace(c) {
			out = append(out, c)
		}
	}
	return out
}

func (b *builder) text(value []byte) uint32 { return b.t.Names.intern(scan.Unquote(value)) }

// gpuOf reads a GPU event. Device and stream come from the arguments; without
// them from pid and tid, which repeat them.
func (b *builder) gpuOf(s Span, kind Kind, e *scan.Event) GPU {
	g := GPU{Start: s.Start, Dur: s.End - s.Start, Name: s.Name, Track: s.Track, Kind: kind, Collective: -1}
	g.Device, _ = int32Of(e.PID)
	g.Stream, _ = int32Of(e.TID)
	var cfg Config
	coll := Collective{Seq: -1}
	scan.Fields(e.Args, func(key, value []byte) {
		switch string(key) {
		case "device":
			if v, ok := int32Of(value); ok {
				g.Device = v
			}
		case "stream":
			if v, ok := int32Of(value); ok {
				g.Stream = v
			}
		case "correlation":
			g.Correlation, _ = scan.Integer(value)
		case "External id", "external id":
			g.External, _ = scan.Integer(value)
		case "grid":
			cfg.Grid = triple(value)
		case "block":
			cfg.Block = triple(value)
		case "registers per thread":
			cfg.Registers, _ = int32Of(value)
		case "shared memory":
			cfg.Shared, _ = scan.Integer(value)
		case "bytes":
			cfg.Bytes, _ = scan.Integer(value)
		case "graph node id":
			cfg.Node, _ = scan.Integer(value)
		default:
			b.collective(&coll, key, value)
		}
	})
	g.Config = b.config(cfg)
	if coll.Name != 0 {
		g.Collective = int32(len(b.t.Collectives))
		b.t.Collectives = append(b.t.Collectives, coll)
	}
	return g
}

func (b *builder) collective(c *Collective, key, value []byte) {
	switch string(key) {
	case "Collective name":
		c.Name = b.text(value)
	case "dtype":
		c.DType = b.text(value)
	case "Process Group Name":
		c.Group = b.text(value)
	case "In msg nelems":
		c.In, _ = scan.Integer(value)
	case "Out msg nelems":
		c.Out, _ = scan.Integer(value)
	case "Group size":
		c.Size, _ = scan.Integer(value)
	case "Seq":
		if v, ok := scan.Integer(value); ok {
			c.Seq = v
		}
	}
}

func (b *builder) config(c Config) uint32 {
	id, ok := b.configs[c]
	if !ok {
		id = uint32(len(b.t.Configs))
		b.t.Configs = append(b.t.Configs, c)
		b.configs[c] = id
	}
	return id
}

func int32Of(value []byte) (int32, bool) {
	v, ok := scan.Integer(value)
	if !ok || v != int64(int32(v)) {
		return 0, false
	}
	return int32(v), true
}

// triple reads "[x, y, z]"; what is missing is 1 in no case, but 0, "not said".
func triple(value []byte) (out [3]int32) {
	value = bytes.Trim(scan.Unquote(value), "[] ")
	for i, part := range bytes.SplitN(value, []byte(","), 3) {
		out[i], _ = int32Of(bytes.TrimSpace(part))
	}
	return out
}
