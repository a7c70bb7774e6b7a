package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/kind"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
)

// answerPatience bounds how long a daemon is waited for.
const answerPatience = 10 * time.Second

// places joins the language's executor blocks to the table of kinds.
type places struct {
	self, store string
	made        map[string]executors.Executor // by kind and options: a lifeline ends with its executor
}

func newPlaces(self, store string) *places {
	return &places{self, store, map[string]executors.Executor{}}
}

func (p *places) setup(e lang.Executor) kind.Setup {
	s := kind.Setup{Self: p.self, Tasks: filepath.Join(p.store, "tasks"), Folder: filepath.Join(p.store, "containers"), Options: map[string]string{}}
	for _, o := range e.Options {
		s.Options[o.Name] = o.Value.Text()
	}
	return s
}

// Choose implements prepare.Places.
func (p *places) Choose(ctx context.Context, e lang.Executor, fw lang.Framework) (string, string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if e.Type == "auto" {
		return kind.Auto(ctx, kind.Kinds, p.setup(e), fw.Image, fw.Program)
	}
	k, ok := kind.Named(kind.Kinds, e.Type)
	switch {
	case !ok:
		return "", "", fmt.Errorf("executor %q cannot run tasks in this build yet; write executor \"docker\" {} or another kind, or give --executor KIND", e.Type)
	case k.Images && fw.Image == "":
		return "", "", fmt.Errorf("executor %q runs images, and the framework has none; write image = \"…\" into its block, or choose executor \"local\"", e.Type)
	case !k.Images && fw.Program == "":
		return "", "", fmt.Errorf("executor %q runs programs of the host, and the framework has only an image; write program = \"…\" into its block, or choose executor \"docker\"", e.Type)
	}
	return e.Type, "", nil
}

// Image implements prepare.Places.
func (p *places) Image(ctx context.Context, e lang.Executor, ref string) (prepare.Image, error) {
	k, _ := kind.Named(kind.Kinds, e.Type)
	img, err := k.Open(ctx, p.setup(e), ref)
	if errors.Is(err, kind.ErrAbsent) {
		return nil, fmt.Errorf("%w: %w; `sotabuild image pull` gets every image of the campaign, and so does apply", prepare.ErrNoImage, err)
	}
	if err != nil {
		return nil, err
	}
	id, err := key.ParseDigest(img.Identity)
	return placedImage{img, id}, err
}

// placedImage is an image as prepare sees it.
type placedImage struct {
	kind.Image
	id key.Digest
}

func (i placedImage) ID() key.Digest                           { return i.id }
func (i placedImage) Ref() string                              { return i.Image.Ref }
func (i placedImage) Env() []string                            { return i.Image.Env }
func (i placedImage) Root(ctx context.Context) (string, error) { return i.Image.Root(ctx) }

// executor makes the executor of a block, once for the same settings. Its type
// is a kind.
func (p *places) executor(e lang.Executor) (executors.Executor, error) {
	k, ok := kind.Named(kind.Kinds, e.Type)
	if !ok {
		return nil, fmt.Errorf("executor %q cannot run tasks in this build", e.Type)
	}
	id := e.Type
	for _, o := range e.Options {
		id += "\x00" + o.Name + "=" + o.Value.Text()
	}
	if made, ok := p.made[id]; ok {
		return made, nil
	}
	made, err := k.New(p.setup(e))
	if err != nil {
		return nil, fmt.Errorf("executor %q: %w", e.Type, err)
	}
	p.made[id] = made
	return made, nil
}

// blocks makes the executor of every framework's block, before anything starts.
func (s *session) blocks() (map[string]executors.Executor, error) {
	out := map[string]executors.Executor{}
	for _, fw := range campaign.Compared(s.Campaign) {
		made, err := s.places.executor(prepare.Settled(s.Campaign, s.Facts, fw))
		if err != nil {
			return nil, fmt.Errorf("framework %q: %w", fw.Label, err)
		}
		out["framework."+fw.Label] = made
	}
	return out, nil
}

// elsewhere makes an executor of a kind that no block asks for, for the tasks of
// an engine that is gone.
func (p *places) elsewhere(name string) executors.Executor {
	made, err := p.executor(lang.Executor{Type: name})
	if err != nil {
		return nil // adoption says that nobody runs there
	}
	return made
}

// imageOf reads the identity of the image that a task ran in.
func (s *session) imageOf(ctx context.Context) func(campaign.Host) (key.Digest, error) {
	return func(h campaign.Host) (key.Digest, error) {
		i := slices.IndexFunc(s.Campaign.Frameworks, func(fw lang.Framework) bool { return fw.Label == h.Label })
		if i < 0 {
			return h.ImageID, nil // of a framework that is no longer there: nobody uses it
		}
		e := prepare.Settled(s.Campaign, s.Facts, s.Campaign.Frameworks[i])
		e.Type = h.Place.Executor
		img, err := s.places.Image(ctx, e, h.Place.Image)
		if err != nil {
			return key.Digest{}, err
		}
		return img.ID(), nil
	}
}

// overrideExecutor puts the executor of the command line in the place of the
// campaign's. Options of a block hold only where it is of that kind.
func overrideExecutor(c *lang.Campaign, name string) error {
	if name == "" {
		return nil
	}
	if _, ok := lang.ExecutorKindNamed(name); !ok {
		var names []string
		for _, k := range lang.ExecutorKinds {
			names = append(names, k.Name)
		}
		return fail(codeUsage, fmt.Errorf("--executor %q: write one of %s", name, strings.Join(names, ", ")))
	}
	change := func(e lang.Executor) lang.Executor {
		if e.Type != name {
			e.Type, e.Options = name, nil
		}
		return e
	}
	c.Run.Executor = change(c.Run.Executor)
	for i := range c.Frameworks {
		if own := c.Frameworks[i].Executor; own != nil {
			changed := change(*own)
			c.Frameworks[i].Executor = &changed
		}
	}
	return nil
}

// pull removes what a killed one has left half-way, then gets the images that are not here, each once, and counts them. An
// executor that may not pull (pull = "never") leaves that to the error of plan.
func (a *app) pull(ctx context.Context, c *lang.Campaign) (int, error) {
	dir, err := filepath.Abs(a.storeDir())
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	p, done := newPlaces(self, dir), map[string]bool{}
	if err := p.tidy(ctx); err != nil {
		return 0, err
	}
	for _, fw := range campaign.Compared(c) {
		if fw.Image == "" {
			continue
		}
		e := prepare.ExecutorOf(c, fw)
		name, _, err := p.Choose(ctx, e, fw)
		if err != nil {
			continue // whoever opens the campaign says it with its place
		}
		e.Type = name
		k, _ := kind.Named(kind.Kinds, name)
		s := p.setup(e)
		if k.Pull == nil || s.Options["pull"] == "never" || done[name+" "+fw.Image] {
			continue
		}
		if _, err := k.Open(ctx, s, fw.Image); !errors.Is(err, kind.ErrAbsent) {
			continue
		}
		fmt.Fprintf(a.err, "Pulling %s for framework %q (%s).\n", fw.Image, fw.Label, name)
		if err := k.Pull(ctx, s, fw.Image, func(line string) { fmt.Fprintln(a.err, "  "+line) }); err != nil {
			return len(done), fmt.Errorf("framework %q: pulling %s: %w", fw.Label, fw.Image, err)
		}
		done[name+" "+fw.Image] = true
	}
	return len(done), nil
}
