package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// site is a graph on the disk, for both tools: in/, out/, build.ninja with its
// log, and store/.
type site struct {
	dir, shape string
	n          int
}

// The shapes. Every node has an input file and an output file of its own.
const (
	flat  = "flat"  // nothing needs anything
	chain = "chain" // each node needs the one before
	fanIn = "fanin" // the last node needs all others
	grid  = "grid"  // 100 wide; each node needs two of the row above
)

// needs lists what a node needs, ascending.
func (s site) needs(i int) []int {
	switch {
	case s.shape == chain && i > 0:
		return []int{i - 1}
	case s.shape == fanIn && i == s.n-1:
		all := make([]int, i)
		for k := range all {
			all[k] = k
		}
		return all
	case s.shape == grid && i >= 100:
		row, col := i/100, i%100
		a, b := (row-1)*100+col, (row-1)*100+(col+1)%100
		return []int{min(a, b), max(a, b)}
	}
	return nil
}

func path(kind string, i int) string { return fmt.Sprintf("%s/%d/%d", kind, i/1000, i) }

type spec struct {
	Command string     `key:"command"`
	File    key.Digest `key:"file"`
}

var kind = &compile.Kind{Name: "copy", Version: 1, Purity: compile.Pure, Outputs: []string{"out"},
	Func: func(context.Context, compile.Job) compile.Result { panic("a no-op plan runs nothing") }}

// graph declares and compiles: what a campaign's matrix becomes after its file
// is read. The digests of the input files are facts.
func (s site) graph(facts []byte) (*compile.Graph, error) {
	decls := make([]compile.Decl, s.n)
	for i := range decls {
		d := &decls[i]
		d.Addr, d.Kind, d.Block = "copy.n"+strconv.Itoa(i), kind, "block"
		d.Spec = spec{Command: "copy", File: key.Digest(facts[32*i:])}
		for _, from := range s.needs(i) {
			d.Inputs = append(d.Inputs, compile.Input{Name: "in", From: decls[from].Addr, Output: "out"})
		}
	}
	g, problems := compile.Build(decls, compile.Env{})
	if len(problems) > 0 {
		return nil, errors.New(problems[0].String())
	}
	return g, nil
}

// compiled is the graph as the last plan kept it, where the facts are by their
// stat those that it was made of; else it is made anew and kept.
func (s site) compiled() (*compile.Graph, error) {
	path := filepath.Join(s.dir, "facts")
	files, err := key.OpenFiles(filepath.Join(s.dir, "files"))
	if err != nil {
		return nil, err
	}
	of, err := files.File(path)
	if err = errors.Join(err, files.Close()); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(s.keeps())
	switch {
	case err == nil:
		frozen, err := compile.OpenFrozen(b)
		if err != nil {
			return nil, err
		}
		if string(frozen.About) == of.String() {
			return frozen.Thaw([]*compile.Kind{kind})
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	facts, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	g, err := s.graph(facts)
	if err != nil {
		return nil, err
	}
	return g, os.WriteFile(s.keeps(), compile.Freeze(g, []byte(of.String())), 0o600)
}

// keeps is the file of the compiled graph.
func (s site) keeps() string { return filepath.Join(s.dir, "compiled") }

// plan is what is measured: facts of the last time, graph, store, plan, text.
func (s site) plan(w io.Writer) error {
	// The store is read while the graph is made, as the commands do.
	type opened struct {
		r   *cache.Snapshot
		err error
	}
	store := make(chan opened, 1)
	go func() {
		r, err := cache.OpenReader(filepath.Join(s.dir, "store"))
		store <- opened{r, err}
	}()
	g, err := s.compiled()
	if err != nil {
		return err
	}
	o := <-store
	r := o.r
	if o.err != nil {
		return o.err
	}
	p, problems := plan.Make(g, r, plan.Options{})
	if len(problems) > 0 {
		return errors.New(problems[0].String())
	}
	if _, err := io.WriteString(w, p.Text(g)); err != nil {
		return err
	}
	if p.Counts.Cached != s.n {
		return fmt.Errorf("%d of %d nodes are cached", p.Counts.Cached, s.n)
	}
	return r.Close()
}

// make writes the whole site: files, ninja's file and log, and the store with
// a record of every node. Objects are written by hand, since syncing a hundred
// thousand files is not what is measured.
func (s site) make() error {
	facts, err := s.files()
	if err != nil {
		return err
	}
	if err := s.ninja(); err != nil {
		return err
	}
	g, err := s.graph(facts)
	if err != nil {
		return err
	}
	store := filepath.Join(s.dir, "store")
	l, err := cache.OpenLocal(store, cache.Options{})
	if err != nil {
		return err
	}
	return errors.Join(s.records(g, l, store), l.Close())
}

func (s site) files() ([]byte, error) {
	var facts bytes.Buffer
	for i := range s.n {
		if i%1000 == 0 {
			for _, kind := range []string{"in", "out"} {
				if err := os.MkdirAll(filepath.Join(s.dir, filepath.Dir(path(kind, i))), 0o755); err != nil {
					return nil, err
				}
			}
		}
		text := fmt.Appendf(nil, "input %d\n", i)
		d := key.Sum(text)
		facts.Write(d[:])
		if err := os.WriteFile(filepath.Join(s.dir, path("in", i)), text, 0o644); err != nil {
			return nil, err
		}
	}
	time.Sleep(10 * time.Millisecond) // outputs are younger than inputs, by more than a clock's step
	for i := range s.n {
		if err := os.WriteFile(filepath.Join(s.dir, path("out", i)), nil, 0o644); err != nil {
			return nil, err
		}
	}
	return facts.Bytes(), os.WriteFile(filepath.Join(s.dir, "facts"), facts.Bytes(), 0o644)
}

// ninja writes build.ninja and the log that a finished build leaves. The rule
// is a generator's, so that ninja reads the log but does not compare the hashes
// of commands in it, which only it can make.
func (s site) ninja() error {
	var b, log strings.Builder
	b.WriteString("rule copy\n  command = cp $in $out\n  generator = 1\n")
	log.WriteString("# ninja log v5\n")
	for i := range s.n {
		fmt.Fprintf(&b, "build %s: copy %s", path("out", i), path("in", i))
		for k, from := range s.needs(i) {
			if k == 0 {
				b.WriteString(" |")
			}
			b.WriteString(" " + path("out", from))
		}
		b.WriteByte('\n')
		fi, err := os.Stat(filepath.Join(s.dir, path("out", i)))
		if err != nil {
			return err
		}
		fmt.Fprintf(&log, "0\t1\t%d\t%s\t%x\n", fi.ModTime().UnixNano(), path("out", i), i)
	}
	return errors.Join(os.WriteFile(filepath.Join(s.dir, "build.ninja"), []byte(b.String()), 0o644),
		os.WriteFile(filepath.Join(s.dir, ".ninja_log"), []byte(log.String()), 0o644))
}

// records writes an object and a record for every node.
func (s site) records(g *compile.Graph, l *cache.Local, store string) error {
	out := make([]key.Digest, s.n)
	records := make([]cache.Record, s.n)
	started := time.Now().UTC()
	for i := range g.Actions {
		a := &g.Actions[i]
		text := fmt.Appendf(nil, "output %d\n", i)
		out[i] = key.Sum(text)
		name := out[i].String()[len("sha256:"):]
		folder := filepath.Join(store, "cas", name[:2])
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name[2:]), text, 0o444); err != nil {
			return err
		}
		m, ok := g.Manifest(a.ID, func(from graph.NodeID, _ string) (key.Digest, bool) { return out[from], true })
		if !ok {
			return fmt.Errorf("the manifest of %s is not known", a.Addr)
		}
		records[i] = cache.Record{Key: m.Key(), Node: a.Addr, Kind: kind.Name, Manifest: m.Text(), Outcome: cache.Outcome{State: cache.OK},
			Outputs: []cache.Output{{Name: "out", Digest: out[i], Size: int64(len(text))}}, Time: cache.Span{Started: started, Seconds: 1},
			Origin: cache.Origin{Host: "bench", Tool: "devel", Attempt: 1, Run: "bench"}}
	}
	return l.Import(context.Background(), records)
}
