package launch

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// Stage is what the server was doing when it launched the work.
type Stage string

// The stages, in display order. A mixed step serves both kinds of requests and
// is never added to either.
const (
	Prefill Stage = "prefill"
	Decode  Stage = "decode"
	Mixed   Stage = "mixed"
	None    Stage = "other"
)

// Stages is all stages in display order.
var Stages = []Stage{Prefill, Decode, Mixed, None}

// Step is one annotated forward step on a CPU thread.
type Step struct {
	Name       string
	Stage      Stage // None for an idle step
	Start, End int64 // ns on the file's clock, of the CPU annotation
	Track      uint32
	Requests   int // -1 when the name does not say
	Tokens     int // -1 when the name does not say
	Capture    bool
}

// Shape is the part of a step that makes steps comparable: stage and sizes.
func (s Step) Shape() string {
	return string(s.Stage) + "/" + strconv.Itoa(s.Requests) + "/" + strconv.Itoa(s.Tokens)
}

var (
	sglangStep = lazyregexp.New(`(?i)^step\[([A-Z_]+)((?: [a-z_]+=[0-9]+)*)[^\]]*\]$`)
	vllmStep   = lazyregexp.New(`^execute_(?:[0-9]+_)?context_([0-9]+)\(([^)]*)\)_generation_([0-9]+)\(([^)]*)\)$`)
	trtStep    = lazyregexp.New(`^\[Executor\] _forward_step [0-9]+: ([0-9]+) ctx reqs, ([0-9]+) gen reqs`)
	capture    = lazyregexp.New(`^capture_[0-9]+_[A-Z]+`)
	leading    = lazyregexp.New(`^(?:sq)?([0-9]+)`)
)

// ParseStep reads an annotation's name. ok is false when it is no step: whole
// grammars are matched, because "decode" is also part of "decoder" and
// "decode_image".
func ParseStep(name string) (s Step, ok bool) {
	s = Step{Name: name, Requests: -1, Tokens: -1}
	if m := vllmStep.FindStringSubmatch(name); m != nil {
		context, generation := atoi(m[1]), atoi(m[3])
		s.Stage = byRequests(context, generation)
		s.Requests = context + generation
		s.Tokens = tokens(m[2]) + tokens(m[4])
		return s, true
	}
	if m := sglangStep.FindStringSubmatch(name); m != nil {
		switch strings.ToUpper(m[1]) {
		case "EXTEND", "PREFILL", "SPLIT_PREFILL":
			s.Stage = Prefill
		case "DECODE", "TARGET_VERIFY", "DRAFT_EXTEND":
			s.Stage = Decode
		case "MIXED":
			s.Stage = Mixed
		default:
			s.Stage = None
		}
		for f := range strings.FieldsSeq(m[2]) {
			key, value, _ := strings.Cut(f, "=")
			switch key {
			case "bs":
				s.Requests = atoi(value)
			case "toks":
				s.Tokens = atoi(value)
			}
		}
		return s, true
	}
	if m := trtStep.FindStringSubmatch(name); m != nil {
		s.Stage = byRequests(atoi(m[1]), atoi(m[2]))
		s.Requests = atoi(m[1]) + atoi(m[2])
		return s, true
	}
	if capture.MatchString(name) {
		s.Stage, s.Capture = None, true
		return s, true
	}
	return s, false
}

func byRequests(context, generation int) Stage {
	switch {
	case context > 0 && generation > 0:
		return Mixed
	case context > 0:
		return Prefill
	case generation > 0:
		return Decode
	}
	return None
}

// tokens reads "2048", "888_788544" and "sq15360sk15360…": the query tokens.
func tokens(s string) int {
	if m := leading.FindStringSubmatch(s); m != nil {
		return atoi(m[1])
	}
	return 0
}

// atoi is for digits that a pattern has matched; a number beyond int saturates.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1<<31 - 1
	}
	return n
}

// FileStage is the stage that a path names: SGLang's -EXTEND and -DECODE file
// endings, or a folder prefill, extend or decode. None when it names none.
func FileStage(p string) Stage {
	p = strings.ToLower(filepath.ToSlash(p))
	stem := path.Base(p)
	for _, ext := range []string{".gz", ".json", ".trace", ".pt"} {
		stem = strings.TrimSuffix(stem, ext)
	}
	for _, w := range []struct {
		word  string
		stage Stage
	}{{"extend", Prefill}, {"prefill", Prefill}, {"decode", Decode}} {
		if strings.HasSuffix(stem, "-"+w.word) {
			return w.stage
		}
		dirs := strings.Split(path.Dir(p), "/")
		for _, d := range dirs[max(0, len(dirs)-3):] {
			if d == w.word {
				return w.stage
			}
		}
	}
	return None
}
