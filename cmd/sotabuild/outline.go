package main

import (
	"context"
	"maps"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
)

// outline is a campaign as far as a plan needs it.
type outline struct {
	prepare.Outline
	*ground
	store cache.Reader
	// whole is the campaign's session, for what needs more of it: loops, and a
	// plan that is saved.
	whole func() (*session, error)
}

// loops plans the loops of the campaign; nil where it asks for none and no round
// is named.
func (o *outline) loops(replace []string) (loopViews, error) {
	if len(o.Rounds) == 0 && len(replace) == 0 {
		return nil, nil
	}
	s, err := o.whole()
	if err != nil {
		return nil, err
	}
	return s.loops(replace)
}

// outline opens the campaign for a plan. It is compiled only where its compiled
// form is not of what is there now; with --refresh=false its files are then not
// even read.
func (a *app) outline(ctx context.Context) (*outline, error) {
	store := a.reader()
	g, err := a.ground()
	if err != nil {
		return nil, err
	}
	kept, err := prepare.OpenCompiled(g.compiledFile())
	if err != nil {
		a.unkept(err)
	}
	if kept != nil && a.stale {
		if o, err := a.unread(ctx, kept, g, store); o != nil || err != nil {
			return o, err
		}
	}
	c, loaded, err := a.read()
	if err != nil {
		return nil, err
	}
	r, err := store()
	if err != nil {
		return nil, err
	}
	f, from, err := a.facts(ctx, c, g)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		if out, said, ok := kept.Outline(from, r, time.Now()); ok {
			if err := a.diagnose(said); err != nil {
				return nil, err
			}
			a.noteDefects(r)
			return &outline{out, g, r, func() (*session, error) { return &session{prepare.Whole(out, c, f), g, r}, nil }}, nil
		}
	}
	p, said, err := a.compile(c, f, r)
	if err != nil {
		return nil, err
	}
	if !g.readOnly {
		if err := p.Keep(g.compiledFile(), from, loaded, said); err != nil {
			a.unkept(err)
		}
	}
	return &outline{p.Outline, g, r, func() (*session, error) { return &session{p, g, r}, nil }}, nil
}

// unread is the outline of a campaign whose files are, by their stats, those that
// were compiled, with the facts of the last time; nil where anything is another.
func (a *app) unread(ctx context.Context, kept *prepare.Compiled, g *ground, store func() (*cache.Snapshot, error)) (*outline, error) {
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return nil, err
	}
	files, ok := kept.Files(dir, g.files)
	if !ok {
		return nil, nil
	}
	// Loops need the campaign itself, as it is now and not when they are planned.
	var c *lang.Campaign
	if len(kept.Rounds()) > 0 {
		if c, _, err = a.parse(); err != nil || c == nil || !maps.Equal(fileDigests(c), files) {
			return nil, err
		}
		if err := overrideExecutor(c, a.executor); err != nil {
			return nil, err
		}
	}
	var from prepare.Origin
	if from.Of, err = a.origin(g, dir, files); err != nil {
		return nil, err
	}
	f, digest, ok, _ := prepare.Recall(g.factsFile(), from.Of, g.self)
	if !ok {
		return nil, nil // what is wrong is told where they are read
	}
	from.Facts = digest
	if from.Revision, err = kept.Weights(g.dir); err != nil {
		return nil, err
	}
	r, err := store()
	if err != nil {
		return nil, err
	}
	out, said, ok := kept.Outline(from, r, time.Now())
	if !ok {
		return nil, nil
	}
	for _, diags := range []lang.Diagnostics{kept.Loaded(), said} {
		if err := a.diagnose(diags); err != nil {
			return nil, err
		}
	}
	a.noteDefects(r)
	return &outline{out, g, r, func() (*session, error) {
		if c == nil {
			return a.view(ctx) // it has no loops, and a round of one was named
		}
		f.Revision, f.Hub, err = prepare.Weights(c, g.dir)
		return &session{prepare.Whole(out, c, f), g, r}, err
	}}, nil
}
