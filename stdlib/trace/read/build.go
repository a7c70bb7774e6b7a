package read

import (
	"bytes"
	"strings"
)

// builder fills a Trace from events.
type builder struct {
	t       *Trace
	w       *window
	ev      event
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

func newBuilder(name string, w *window) *builder {
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
func (b *builder) add(e *event) {
	if len(e.phase) == 0 {
		b.t.Counts.Broken++
		return
	}
	b.t.Counts.Events++
	c := b.count(e)
	start, okStart := nanoseconds(e.ts)
	// The earliest time of the file is where viewers put their zero; metadata
	// records do not count.
	if okStart && e.phase[0] != 'M' && (!b.timed || start < b.t.Meta.First) {
		b.t.Meta.First, b.timed = start, true
	}
	if c == ignored || e.phase[0] != 'X' || len(e.phase) != 1 {
		return
	}
	dur, okDur := nanoseconds(e.dur)
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
		s.Name = b.t.Names.internFrame(e.name)
		b.t.Frames.add(s)
		return
	}
	s.Track = b.trackOf(e)
	s.Name = b.t.Names.intern(e.name)
	switch c {
	case note:
		b.t.Notes = append(b.t.Notes, s)
	case gpuNote:
		b.t.GPUNotes = append(b.t.GPUNotes, s)
	case call:
		b.t.Calls = append(b.t.Calls, b.callOf(s, e.args))
	case op:
		b.t.Ops = append(b.t.Ops, b.opOf(s, e.args))
	default:
		b.t.GPU = append(b.t.GPU, b.gpuOf(s, Kind(c-gpuKernel), e))
	}
}

// count counts the event under its category and phase and classifies it.
func (b *builder) count(e *event) class {
	l := &b.last
	if l.n != nil && l.phase == e.phase[0] && len(e.phase) == 1 && bytes.Equal(l.cat, e.cat) {
		*l.n++
		return l.class
	}
	key := kindKey{cat: "None", phase: string(e.phase)}
	if e.cat != nil {
		key.cat = string(unescape(e.cat))
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
		cat:   append(l.cat[:0], e.cat...),
		phase: e.phase[0],
		n:     n,
		class: classes[strings.ToLower(key.cat)],
	}
	if len(e.phase) != 1 {
		l.n = nil
	}
	return l.class
}

// trackOf interns the (pid, tid) pair.
func (b *builder) trackOf(e *event) uint32 {
	c := &b.track
	if c.id != 0 && bytes.Equal(c.pid, e.pid) && bytes.Equal(c.tid, e.tid) {
		return c.id - 1
	}
	c.pid = append(c.pid[:0], e.pid...)
	c.tid = append(c.tid[:0], e.tid...)
	b.scratch = append(append(append(b.scratch[:0], e.pid...), 0), e.tid...)
	id, ok := b.tracks[string(b.scratch)]
	if !ok {
		id = uint32(len(b.t.Tracks))
		t := Track{PID: string(unescape(unquote(e.pid))), TID: string(unescape(unquote(e.tid)))}
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
	fields(args, func(key, value []byte) {
		switch string(key) {
		case "correlation":
			c.Correlation, _ = integer(value)
		case "External id", "external id":
			c.External, _ = integer(value)
		case "kernel":
			c.Kernel = b.text(value)
		}
	})
	return c
}

func (b *builder) opOf(s Span, args []byte) Op {
	o := Op{Span: s}
	fields(args, func(key, value []byte) {
		switch string(key) {
		case "External id", "external id":
			o.External, _ = integer(value)
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
		if quoted || !isSpace(c) {
			out = append(out, c)
		}
	}
	return out
}

func (b *builder) text(value []byte) uint32 { return b.t.Names.intern(unquote(value)) }

// gpuOf reads a GPU event. Device and stream come from the arguments; without
// them from pid and tid, which repeat them.
func (b *builder) gpuOf(s Span, kind Kind, e *event) GPU {
	g := GPU{Start: s.Start, Dur: s.End - s.Start, Name: s.Name, Track: s.Track, Kind: kind, Collective: -1}
	g.Device, _ = int32Of(e.pid)
	g.Stream, _ = int32Of(e.tid)
	var cfg Config
	coll := Collective{Seq: -1}
	fields(e.args, func(key, value []byte) {
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
			g.Correlation, _ = integer(value)
		case "External id", "external id":
			g.External, _ = integer(value)
		case "grid":
			cfg.Grid = triple(value)
		case "block":
			cfg.Block = triple(value)
		case "registers per thread":
			cfg.Registers, _ = int32Of(value)
		case "shared memory":
			cfg.Shared, _ = integer(value)
		case "bytes":
			cfg.Bytes, _ = integer(value)
		case "graph node id":
			cfg.Node, _ = integer(value)
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
		c.In, _ = integer(value)
	case "Out msg nelems":
		c.Out, _ = integer(value)
	case "Group size":
		c.Size, _ = integer(value)
	case "Seq":
		if v, ok := integer(value); ok {
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
	v, ok := integer(value)
	if !ok || v != int64(int32(v)) {
		return 0, false
	}
	return int32(v), true
}

// triple reads "[x, y, z]"; what is missing is 1 in no case, but 0, "not said".
func triple(value []byte) (out [3]int32) {
	value = bytes.Trim(unquote(value), "[] ")
	for i, part := range bytes.SplitN(value, []byte(","), 3) {
		out[i], _ = int32Of(bytes.TrimSpace(part))
	}
	return out
}
