// Package saved is a plan written down to be applied later, exactly as it was
// judged. A plan that was saved holds everything it was made from; before it is
// applied the same is found out again, and whatever differs is named (Moved).
//
// It knows files as bytes and nodes by address. It reads no campaign and no
// store: the caller describes both, the same way when it saves and when it
// applies. Values are not changed once made.
package saved

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
)

// Version is the version of the file's form.
const Version = 1

// maxFile bounds what is read: 100,000 nodes with manifests take a tenth of it.
const maxFile = 1 << 30

// Plan is a saved plan. Nothing secret is in it: variables are text of the
// campaign, and manifests hold secrets by name only.
type Plan struct {
	V        int           `json:"v"`
	ID       string        `json:"id"` // random; a plan is applied once
	Made     time.Time     `json:"made"`
	Tool     Tool          `json:"tool"`
	Campaign Campaign      `json:"campaign"`
	Env      string        `json:"env"` // the binding facts of the host, as a manifest's text
	Store    Store         `json:"store"`
	Options  Options       `json:"options"`
	Counts   plan.Counts   `json:"counts"`
	Estimate plan.Estimate `json:"estimate"`
	Nodes    []Node        `json:"nodes"` // in graph order
}

// Tool is the program that made the plan.
type Tool struct {
	Version string     `json:"version"`
	Build   key.Digest `json:"build"` // of its bytes
}

// Campaign is what the plan was compiled from.
type Campaign struct {
	Name  string                `json:"name"`
	Files map[string]key.Digest `json:"files"` // by name as the campaign reads them
	// Vars are the values given with --var, Env those of the environment. The
	// plan is applied with them.
	Vars map[string]string `json:"vars"`
	Env  map[string]string `json:"env"`
}

// Store is the store that the plan was judged against.
type Store struct {
	ID     string `json:"id"`
	Serial uint64 `json:"serial"`
}

// Options are the plan's own options.
type Options struct {
	Targets []string `json:"targets,omitempty"`
	Replace []string `json:"replace,omitempty"`
}

// Node is one node as it was judged. Key is zero while it waits for an input.
// The manifest is there for nodes that were to run with a known key; that of
// a cached one stands in its record.
type Node struct {
	Addr     string  `json:"node"`
	Verdict  string  `json:"verdict"`
	Key      key.Key `json:"key"`
	Manifest string  `json:"manifest,omitempty"`
}

// New describes a plan that was just made. The caller fills in Tool, Campaign,
// Store.ID and Options.
func New(g *compile.Graph, p *plan.Plan, now time.Time) Plan {
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	var env key.Builder
	env.Add(g.Env.Binding...)
	s := Plan{V: Version, ID: hex.EncodeToString(id[:]), Made: now.UTC(), Env: env.Finish().Text(),
		Store: Store{Serial: p.Serial}, Counts: p.Counts, Estimate: p.Estimate, Nodes: make([]Node, len(p.Nodes))}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		s.Nodes[i] = Node{Addr: g.Actions[i].Addr, Verdict: n.Verdict.Word(), Key: n.Key}
		if n.Verdict != plan.Cached && !n.Key.IsZero() {
			m, _ := plan.Manifest(g, p, graph.NodeID(i))
			s.Nodes[i].Manifest = m.Text()
		}
	}
	return s
}

// The file: one line with the form's name and the digest of the rest, so that a
// plan which was edited or cut short is told apart from one that moved.
const head = "sotabuild plan 1 "

// Writable says why no plan can be saved at a path: Write replaces what is there,
// which must be a saved plan itself, and no device or folder.
func Writable(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return fmt.Errorf("%s: there is no folder %s", path, filepath.Dir(path))
		}
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: it is no file; write a file's name", path)
	case info.Size() == 0:
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	b := make([]byte, len(head))
	if _, err := io.ReadFull(f, b); err != nil || string(b) != head {
		return fmt.Errorf("%s: it is there and no saved plan, and would be lost; write another name", path)
	}
	return nil
}

// Write makes or replaces the file at path, which is Writable, whole or not at all,
// private.
func Write(path string, p Plan) (err error) {
	body, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return fmt.Errorf("writing plan: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".plan-*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing plan %s: %w", path, cause(err))
	}
	_, err = io.WriteString(tmp, head+key.Sum(body).String()+"\n")
	if err == nil {
		_, err = tmp.Write(body)
	}
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing plan %s: %w", path, cause(err)), os.Remove(tmp.Name()))
	}
	return nil
}

// cause is an error of the file system without the temporary file's name.
func cause(err error) error {
	var path *os.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// Read reads what Write wrote.
func Read(path string) (Plan, error) {
	f, err := os.Open(path)
	if err != nil {
		return Plan{}, fmt.Errorf("reading plan: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err = errors.Join(err, f.Close()); err != nil {
		return Plan{}, fmt.Errorf("reading plan %s: %w", path, err)
	}
	line, body, ok := bytes.Cut(b, []byte("\n"))
	sum, ours := bytes.CutPrefix(line, []byte(head))
	switch {
	case !ours || !ok:
		return Plan{}, fmt.Errorf("reading plan %s: it is no saved plan of this form; make one with plan --out", path)
	case string(sum) != key.Sum(body).String():
		return Plan{}, fmt.Errorf("reading plan %s: it was changed or cut short after it was saved; make it again with plan --out", path)
	}
	var p Plan
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Plan{}, fmt.Errorf("reading plan %s: %w", path, err)
	}
	if p.V != Version || p.ID == "" {
		return Plan{}, fmt.Errorf("reading plan %s: it has version %d, this build knows %d", path, p.V, Version)
	}
	return p, nil
}
