package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// environment checks the binding facts: a fact that stands twice has two
// values, and one with the engine's own name could be taken for it.
func (b *builder) environment() {
	seen := map[[2]string]bool{}
	for _, f := range b.env.Binding {
		id := [2]string{f.Name, f.Label}
		if seen[id] || !isWord(strings.ReplaceAll(f.Name, ".", "_")) || reserved(f.Name) {
			b.problem("", "environment fact %q %q stands twice or has no usable name", f.Name, f.Label)
		}
		seen[id] = true
		if f.Type == key.Text && f.Value == "" {
			b.problem("", `environment fact %q %q is empty; write "unknown" where it cannot be found out`, f.Name, f.Label)
		}
	}
}

// reserved reports whether only the engine adds facts of this name.
func reserved(name string) bool { return name == "scheme" || name == "kind" || name == InputFact }

func (b *builder) addresses() {
	for i := range b.decls {
		addr := b.decls[i].Addr
		if fault := addressFault(addr); fault != "" {
			b.problem(addr, "is no address: %s", fault)
		}
		if first, twice := b.byAddr[addr]; twice {
			b.problem(addr, "is declared twice, as number %d (block %q) and number %d (block %q)",
				first+1, b.decls[first].Block, i+1, b.decls[i].Block)
			continue
		}
		b.byAddr[addr] = graph.NodeID(i)
	}
}

// addressFault says why a text is no address, "" if it is one. An address is
// words joined by dots; a word may be followed by indices, each a number or a
// quoted string in brackets: bench.vllm["max_num_seqs=128"].chat.
func addressFault(addr string) string {
	if addr == "" {
		return "it is empty"
	}
	for rest := addr; ; {
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if !isWord(rest[:end]) {
			return "part " + strconv.Quote(rest[:end]) + " is not made of letters, digits, _ and -"
		}
		rest = rest[end:]
		for strings.HasPrefix(rest, "[") {
			index, ok := indexPrefix(rest[1:])
			if !ok || !strings.HasPrefix(rest[1+len(index):], "]") {
				return "after [ comes a number or a quoted string, and then ]"
			}
			rest = rest[1+len(index)+1:]
		}
		if rest == "" {
			return ""
		}
		if rest[0] != '.' {
			return "after ] comes a dot or the end"
		}
		rest = rest[1:]
	}
}

// indexPrefix is the number or the quoted string that s begins with. The
// string must be quoted as strconv.Quote does, so that a name is spelled in
// one way only and holds nothing that does not print.
func indexPrefix(s string) (string, bool) {
	if digits := len(s) - len(strings.TrimLeft(s, "0123456789")); digits > 0 {
		return s[:digits], true
	}
	if !strings.HasPrefix(s, `"`) {
		return "", false
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", false
	}
	plain, err := strconv.Unquote(quoted)
	return quoted, err == nil && strconv.Quote(plain) == quoted
}

// isWord reports whether s is one or more of letters, digits, _ and -.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	})
}

// kinds checks each kind once, at its first node. Two kinds of one name would
// share keys, so a name is one row of the table, by pointer.
func (b *builder) kinds() {
	byName := map[string]*Kind{}
	runs := map[*Kind]bool{}
	for i := range b.decls {
		if d := &b.decls[i]; d.Skip == "" {
			runs[d.Kind] = true
		}
	}
	for i := range b.decls {
		addr, k := b.decls[i].Addr, b.decls[i].Kind
		if k == nil {
			b.problem(addr, "has no kind")
			continue
		}
		if known, ok := byName[k.Name]; ok {
			if known != k {
				b.problem(addr, "is of a second kind called %s; a kind's name is part of the key and must be its own", k.Name)
			}
			continue
		}
		byName[k.Name] = k
		b.kind(addr, k, runs[k])
	}
}

func (b *builder) kind(addr string, k *Kind, runs bool) {
	if !isWord(k.Name) {
		b.problem(addr, "its kind's name %q is not made of letters, digits, _ and -", k.Name)
	}
	if k.Version < 1 {
		b.problem(addr, "kind %s has version %d; the first version is 1", k.Name, k.Version)
	}
	switch k.Purity {
	case Pure:
	case EnvBound, Measured:
		if len(b.env.Binding) == 0 {
			b.problem(addr, `kind %s is %s, but the environment has no binding fact, so its results would hold on every host; bind at least one, "unknown" if need be`,
				k.Name, k.Purity)
		}
	default:
		b.problem(addr, "kind %s has purity %q; write %s, %s or %s", k.Name, k.Purity, Pure, EnvBound, Measured)
	}
	if len(k.Outputs) == 0 {
		b.problem(addr, "kind %s declares no output; a node without one can never be known to be done", k.Name)
	}
	for i, name := range k.Outputs {
		if name == "" || slices.Contains(k.Outputs[:i], name) {
			b.problem(addr, "kind %s has an output %q that is empty or stands twice", k.Name, name)
		}
	}
	switch {
	case !runs:
	case k.Func == nil && k.Task == nil:
		b.problem(addr, "kind %s has neither a function nor a task, and not all its nodes are skipped", k.Name)
	case k.Func != nil && k.Task != nil:
		b.problem(addr, "kind %s has both a function and a task", k.Name)
	case (k.Task == nil) != (k.Collect == nil):
		b.problem(addr, "kind %s has a task without Collect, or Collect without a task", k.Name)
	}
}

func (b *builder) output(addr string, in Input, k *Kind) {
	if k == nil || slices.Contains(k.Outputs, in.Output) {
		return
	}
	b.problem(addr, "its input %s takes output %q of %s, but kind %s has %s",
		in.Name, in.Output, in.From, k.Name, strings.Join(k.Outputs, ", "))
}

// batches checks that the members of a batch can share one task, and that no
// batch has to wait for itself, directly or by way of others: with every batch
// drawn together into one node the graph must still have no cycle.
func (b *builder) batches(edges []graph.Edge, cyclic bool) {
	first := map[string]graph.NodeID{}
	head := make([]graph.NodeID, len(b.decls))
	for i := range b.decls {
		d, id := &b.decls[i], graph.NodeID(i)
		head[i] = id
		if d.Batch == "" {
			continue
		}
		if d.Kind != nil && d.Kind.Func != nil {
			b.problem(d.Addr, "is in batch %s, but kind %s has no task that could run one", d.Batch, d.Kind.Name)
		}
		at, ok := first[d.Batch]
		if !ok {
			first[d.Batch] = id
			continue
		}
		head[i] = at
		if f := &b.decls[at]; f.Kind != d.Kind || f.Block != d.Block {
			b.problem(d.Addr, "is in batch %s with %s, which is of another kind or block", d.Batch, f.Addr)
		} else if !sameResources(f.Resources, d.Resources) {
			b.problem(d.Addr, "is in batch %s with %s, which asks for other resources", d.Batch, f.Addr)
		}
	}
	if cyclic || len(first) == 0 {
		return
	}
	drawn := make([]graph.Edge, len(edges))
	for i, e := range edges {
		drawn[i] = graph.Edge{From: head[e.From], To: head[e.To]}
	}
	if _, cycle := graph.Sort(len(b.decls), drawn); cycle != nil {
		b.problem(b.decls[cycle[0]].Addr, "a batch is run as a whole, and this one waits for itself: %s", b.needs(cycle, func(d *Decl) string {
			if d.Batch == "" {
				return d.Addr
			}
			return "batch " + d.Batch
		}))
	}
}

func sameResources(x, y Resources) bool {
	return x.Quiet == y.Quiet && x.Host == y.Host && slices.Equal(x.GPUs, y.GPUs)
}
