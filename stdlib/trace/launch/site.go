package launch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Site is a Python line that launches work.
type Site struct {
	Location string // "vllm/attention/layer.py:210 forward"; "" when only a module is known
	Module   string // innermost nn.Module around it, "" when none
	Stack    string // up to four frames, outermost first, joined by " → "
}

// roots is where known frameworks' sources begin, the most telling first. A
// frame inside one beats every frame outside.
var roots = []struct {
	dir      string
	priority int
}{
	{"sglang/", 300}, {"vllm/", 285}, {"tokenspeed/", 283}, {"tensorrt_llm/", 280}, {"sgl_kernel/", 260},
	{"flashinfer/", 250}, {"aiter/", 240}, {"triton_kernels/", 220}, {"xfuser/", 215}, {"diffusers/", 210}, {"transformers/", 200},
}

// noise is files and functions that stand between every launch and its cause.
var noise = []string{
	"threading.py", "contextlib.py", "asyncio/", "selectors.py", "queue.py", "socket.py", "runpy.py", "_monitor.py",
	"<string>", "<built-in", "_call_impl", "__call__", "__torch_function__", "__torch_dispatch__", "_wrapped_call",
	"graph_runner.py", "cuda_graph.py", "py_executor.py", "fx/graph_module.py", "parameter.py", "decorate_context",
	"torch/_ops.py", "torch/_dynamo/", "torch/_inductor/", "torch/utils/_contextlib.py", "torch/nn/modules/module.py",
}

// frameInfo is what a frame's name says.
type frameInfo struct {
	location string
	module   string
	priority int
}

// parseFrame reads "path(line): function" and "nn.Module: Class_3".
func parseFrame(name string) frameInfo {
	if m, ok := strings.CutPrefix(name, "nn.Module: "); ok {
		return frameInfo{module: m}
	}
	open := strings.LastIndex(name, "): ")
	if open < 0 {
		return frameInfo{location: name, priority: -20}
	}
	paren := strings.LastIndexByte(name[:open], '(')
	if paren < 0 {
		return frameInfo{location: name, priority: -20}
	}
	file, line, function := name[:paren], name[paren+1:open], name[open+3:]
	info := frameInfo{priority: 35}
	for _, r := range roots {
		if i := strings.LastIndex(file, r.dir); i == 0 || i > 0 && file[i-1] == '/' {
			file, info.priority = file[i:], r.priority
			break
		}
	}
	for _, dir := range []string{"site-packages/", "dist-packages/"} {
		if i := strings.LastIndex(file, dir); i >= 0 {
			file = file[i+len(dir):]
		}
	}
	if strings.HasPrefix(file, "torch/") {
		info.priority = 10
	}
	if _, err := strconv.Atoi(line); err != nil {
		line = "?"
	}
	info.location = file + ":" + line + " " + function
	for _, n := range noise {
		if strings.Contains(file, n) || function == n {
			info.priority = -20
		}
	}
	return info
}

// sites finds the Python line around each probe. Frames that contain no launch
// (nine of ten) are dropped before anything is sorted.
func (l *Links) sites(t *read.Trace, probes []probe) []int32 {
	out := filled(len(t.Calls))
	l.CallRoot = filled(len(t.Calls))
	if t.Frames.Len() == 0 || len(probes) == 0 {
		return out
	}
	byTrack := map[uint32][]probe{}
	for i := 0; i < len(probes); {
		j := i
		for j < len(probes) && probes[j].track == probes[i].track {
			j++
		}
		byTrack[probes[i].track] = probes[i:j]
		i = j
	}
	var spans []span
	for f := range t.Frames.All() {
		p := byTrack[f.Track]
		i, _ := slices.BinarySearchFunc(p, f.Start, func(p probe, at int64) int { return cmp.Compare(p.at, at) })
		if i < len(p) && p[i].at <= f.End {
			spans = append(spans, span{f.Track, int32(f.Name), f.Start, f.End})
		}
	}
	parsed := map[int32]frameInfo{}
	known := map[Site]int32{}
	roots := map[span]int32{}
	l.left += sweep(spans, probes, func(call int32, around []span) {
		site, root, ok := choose(t, parsed, around)
		if root >= 0 {
			s := around[root]
			id, seen := roots[s]
			if !seen {
				id = int32(len(l.Modules))
				roots[s] = id
				l.Modules = append(l.Modules, Module{parsed[s.id].module, s.start, s.end})
			}
			l.CallRoot[call] = id
		}
		if !ok {
			return
		}
		id, seen := known[site]
		if !seen {
			id = int32(len(l.Sites))
			known[site] = id
			l.Sites = append(l.Sites, site)
		}
		out[call] = id
	})
	return out
}

// choose takes the innermost telling frame: inside a known framework if any
// frame is, else the innermost that is no noise. root is the outermost module
// among the frames, -1 without.
func choose(t *read.Trace, parsed map[int32]frameInfo, around []span) (s Site, root int, ok bool) {
	best := 0
	root = -1
	var stack []string
	for i := len(around) - 1; i >= 0; i-- {
		name := around[i].id
		info, ok := parsed[name]
		if !ok {
			info = parseFrame(t.Name(uint32(name)))
			parsed[name] = info
		}
		if info.module != "" {
			root = i
			if s.Module == "" {
				s.Module = info.module
			}
			continue
		}
		if info.priority <= 0 {
			continue
		}
		if len(stack) < 4 {
			stack = append(stack, info.location)
		}
		// A framework's own frame replaces a library's, but never one of another
		// framework further out: the inner one is the cause.
		if best < 200 && info.priority > best && (best == 0 || info.priority >= 200) {
			s.Location, best = info.location, info.priority
		}
	}
	slices.Reverse(stack)
	s.Stack = strings.Join(stack, " → ")
	return s, root, s.Location != "" || s.Module != ""
}
