package saved

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

// namedNodes is how many nodes that moved are named; the rest is counted.
const namedNodes = 10

// Moved says what differs between a plan as it was saved and the same plan made
// again now, each in one phrase; nil when nothing does. The reader finds the
// manifests of nodes that were cached.
func Moved(was, is Plan, r cache.Reader) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if was.Tool.Version != is.Tool.Version {
		say("tool version: %s → %s", was.Tool.Version, is.Tool.Version)
	} else if was.Tool.Build != is.Tool.Build {
		say("tool build: sha256:%s → sha256:%s", was.Tool.Build.Short(), is.Tool.Build.Short())
	}
	if was.Campaign.Name != is.Campaign.Name {
		say("campaign: %q → %q", was.Campaign.Name, is.Campaign.Name)
	}
	for _, name := range union(was.Campaign.Files, is.Campaign.Files) {
		a, b := was.Campaign.Files[name], is.Campaign.Files[name]
		switch {
		case a == b:
		case b.IsZero():
			say("file %s: it is gone", name)
		case a.IsZero():
			say("file %s: it is new", name)
		default:
			say("file %s: its bytes changed", name)
		}
	}
	out = append(out, movedVars("variable", was.Campaign.Vars, is.Campaign.Vars)...)
	out = append(out, movedVars("variable of the environment", was.Campaign.Env, is.Campaign.Env)...)
	out = append(out, movedEnv(was.Env, is.Env)...)
	switch {
	case was.Store.ID != is.Store.ID:
		say("store: it is another one than the plan was made from, %s → %s", orNone(was.Store.ID), orNone(is.Store.ID))
	case was.Store.Serial != is.Store.Serial:
		say("store: its journal is at record %d, the plan was made at %d", is.Store.Serial, was.Store.Serial)
	}
	return append(out, movedNodes(was, is, r, false)...)
}

// Broken says which nodes of a plan made later do not follow from the saved
// one, after a part of it was applied: a key that was known must not change,
// and no node may come or go. Verdicts and the store move as it is applied.
func Broken(was, is Plan, r cache.Reader) []string { return movedNodes(was, is, r, true) }

func movedNodes(was, is Plan, r cache.Reader, partly bool) []string {
	now := make(map[string]*Node, len(is.Nodes))
	for i := range is.Nodes {
		now[is.Nodes[i].Addr] = &is.Nodes[i]
	}
	var out, follow []string
	for i := range was.Nodes {
		a := &was.Nodes[i]
		b := now[a.Addr]
		delete(now, a.Addr)
		switch {
		case b == nil:
			out = append(out, "node "+a.Addr+": it is gone")
		case partly && a.Key.IsZero():
		case a.Key.IsZero() != b.Key.IsZero(): // by what became of an input
			follow = append(follow, "node "+a.Addr+": "+keyMoved(a, b, r))
		case a.Key != b.Key:
			out = append(out, "node "+a.Addr+": "+keyMoved(a, b, r))
		case !partly && a.Verdict != b.Verdict:
			out = append(out, fmt.Sprintf("node %s: %s → %s", a.Addr, a.Verdict, b.Verdict))
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(now)) {
		out = append(out, "node "+addr+": it is new")
	}
	if len(out) == 0 {
		out, follow = follow, nil
	}
	if len(out) > namedNodes {
		out = append(out[:namedNodes:namedNodes], fmt.Sprintf("and %d more nodes", len(out)-namedNodes))
	}
	switch len(follow) {
	case 0:
	case 1:
		out = append(out, "and 1 node that follows from those")
	default:
		out = append(out, fmt.Sprintf("and %d nodes that follow from those", len(follow)))
	}
	return out
}

// keyMoved names the facts that differ, where both manifests are at hand.
func keyMoved(a, b *Node, r cache.Reader) string {
	was, okA := manifest(a, r)
	is, okB := manifest(b, r)
	if !okA || !okB {
		return "its key changed, " + shortKey(a.Key) + " → " + shortKey(b.Key)
	}
	var parts []string
	for _, c := range key.Diff(was, is) {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, ", ")
}

func manifest(n *Node, r cache.Reader) (key.Manifest, bool) {
	text := n.Manifest
	if text == "" && !n.Key.IsZero() {
		if records := r.Lookup(n.Key); len(records) > 0 {
			text = records[0].Manifest
		}
	}
	m, err := key.ParseManifest(text)
	return m, err == nil && m.Key() == n.Key
}

func movedVars(what string, was, is map[string]string) []string {
	var out []string
	for _, name := range union(was, is) {
		a, okA := was[name]
		b, okB := is[name]
		if okA != okB || a != b {
			out = append(out, fmt.Sprintf("%s %s: %s → %s", what, name, given(a, okA), given(b, okB)))
		}
	}
	return out
}

func movedEnv(was, is string) []string {
	a, errA := key.ParseManifest(was)
	b, errB := key.ParseManifest(is)
	if errA != nil || errB != nil {
		return []string{"environment: it was written down by another scheme of keys"}
	}
	var out []string
	for _, c := range key.Diff(a, b) {
		out = append(out, "environment: "+c.String())
	}
	return out
}

func given(v string, ok bool) string {
	if !ok {
		return "(not given)"
	}
	return fmt.Sprintf("%q", v)
}

func orNone(id string) string {
	if id == "" {
		return "(none)"
	}
	return id
}

func shortKey(k key.Key) string {
	if k.IsZero() {
		return "(not known)"
	}
	return k.Short()
}

// union is the names of both maps, sorted.
func union[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
