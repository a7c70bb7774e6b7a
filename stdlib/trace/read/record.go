package read

import "iter"

// Kind says what a GPU event does.
type Kind uint8

// The kinds of device work. Nothing else counts as GPU time: a cuda_sync row
// also carries a stream and is no work.
const (
	Kernel Kind = iota
	Memcpy
	Memset
)

// Span is one interval on a track: a Python frame or an annotation. Start and
// End are nanoseconds on the file's own clock (Meta.Base makes them absolute);
// the interval is half-open.
type Span struct {
	Start, End int64
	Track      uint32 // index into Trace.Tracks
	Name       uint32 // id in Trace.Names
}

// GPU is one kernel, copy or set on a device. A duration of zero is legal:
// traces in whole microseconds hold thousands of them.
type GPU struct {
	Start, Dur  int64 // ns
	Correlation int64 // 0 when the file does not say
	External    int64 // 0 when the file does not say
	Name        uint32
	Track       uint32
	Config      uint32 // index into Trace.Configs; 0 is "not said"
	Collective  int32  // index into Trace.Collectives, -1 for none
	Device      int32
	Stream      int32 // 0 is a legal stream
	Kind        Kind
}

// End is the first nanosecond after the event.
func (g GPU) End() int64 { return g.Start + g.Dur }

// Config is how a kernel was launched, or how much a copy moved.
type Config struct {
	Grid, Block [3]int32
	Registers   int32 // per thread
	Shared      int64 // bytes
	Bytes       int64 // of a copy or set
	Node        int64 // graph node id
}

// Collective is what NCCL wrote about one kernel. Text fields are ids in Names.
type Collective struct {
	Name, DType, Group uint32
	In, Out            int64 // elements
	Size               int64 // ranks in the group; 0 when not said
	Seq                int64 // -1 when not said
}

// Call is one runtime or driver call on a CPU thread.
type Call struct {
	Span
	Correlation int64
	External    int64
	Kernel      uint32 // ROCm writes the kernel's name beside the call; 0 for none
}

// Op is one framework operator on a CPU thread.
type Op struct {
	Span
	External int64
	Dims     uint32 // the text of "Input Dims", 0 when not recorded
	Types    uint32 // the text of "Input type"
}

// Track is a (pid, tid) pair as spelled in the file. Group is the bracketed
// prefix of a merged file's pid ("[TP00]"), else empty: correlation ids are
// unique inside one group only.
type Track struct {
	PID, TID, Group string
}

// Frames is the list of Python frames in file order. It grows in chunks: a
// doubling slice cost as much memory again as all other records together.
type Frames struct {
	chunks [][]Span
	n      int
}

const chunk = 1 << 15

// Len is the number of frames.
func (f *Frames) Len() int { return f.n }

// All yields the frames in file order.
func (f *Frames) All() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		for _, c := range f.chunks {
			for _, s := range c {
				if !yield(s) {
					return
				}
			}
		}
	}
}

func (f *Frames) add(s Span) {
	if f.n%chunk == 0 {
		f.chunks = append(f.chunks, make([]Span, 0, chunk))
	}
	last := len(f.chunks) - 1
	f.chunks[last] = append(f.chunks[last], s)
	f.n++
}

// Trace is one file as columns. It is built by one reader and not written
// afterwards.
type Trace struct {
	Meta        Meta
	Names       *Names
	Tracks      []Track
	GPU         []GPU // by start, then by place in the file
	Configs     []Config
	Collectives []Collective
	Calls       []Call // file order
	Ops         []Op   // file order
	Frames      Frames
	Notes       []Span // user annotations on CPU threads, file order
	GPUNotes    []Span // their projections onto streams, file order
	Counts      Counts
}

// Name is the text of id.
func (t *Trace) Name(id uint32) string { return t.Names.Text(id) }

// Counts is what the reader saw and what it could not use. Every loss is a
// number here and a sentence in Warnings.
type Counts struct {
	Events   int         // elements of traceEvents, broken ones not included
	ByKind   []KindCount // by category and phase, sorted
	Broken   int         // elements that are no event
	TooLong  int         // events over the size limit
	NoTime   int         // kept categories without a usable ts or dur
	Negative int         // negative durations, taken as 0
	Clipped  int         // impossible durations, cut at the next start on the stream
	Overhead int64       // ns of the profiler's own work
	Partial  bool        // the file ended early
	Warnings []string    // full sentences, in the order found
}

// KindCount is how many events have this category and phase. Cat is "None"
// for events without one.
type KindCount struct {
	Cat   string `json:"cat"`
	Phase string `json:"phase"`
	N     int    `json:"n"`
}
