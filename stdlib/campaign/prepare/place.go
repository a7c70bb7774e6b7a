package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors/image"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
)

// ErrNoImage marks an image that is not here. Plan pulls nothing, so it is an
// error of the campaign until apply, or somebody, has pulled it.
var ErrNoImage = errors.New("the image is not here")

// Places knows the kinds of executors of this host. It starts no task and pulls
// nothing.
type Places interface {
	// Choose settles where a framework's tasks run: on the kind of its executor
	// block or, for auto, on the first that can. note is what a person should
	// know of the choice; "" is nothing. An error says what to write or do.
	Choose(ctx context.Context, e lang.Executor, fw lang.Framework) (kind, note string, err error)
	// Image reads what is known of an image where that kind keeps it; an error
	// that is ErrNoImage says how to get it. e is settled: its type is the kind.
	Image(ctx context.Context, e lang.Executor, ref string) (Image, error)
}

// Image is what is known of an image without running it.
type Image interface {
	// ID is the digest of its config, layers and platform; the same wherever
	// the image is kept (DESIGN 11.5).
	ID() key.Digest
	// Ref is what tasks are given to run in it.
	Ref() string
	// Env is the environment of its config.
	Env() []string
	// Root unpacks its files into a folder that is kept, once for an identity.
	Root(context.Context) (dir string, err error)
}

// ExecutorOf is the executor block that holds for a framework.
func ExecutorOf(c *lang.Campaign, fw lang.Framework) lang.Executor {
	if fw.Executor != nil {
		return *fw.Executor
	}
	return c.Run.Executor
}

// Settled is the executor block of a framework with the kind that was chosen
// for it.
func Settled(c *lang.Campaign, f campaign.Facts, fw lang.Framework) lang.Executor {
	e := ExecutorOf(c, fw)
	e.Type = f.Software[fw.Label].Place.Executor
	return e
}

// inside identifies the software of a framework that runs in an image.
func (p *probing) inside(ctx context.Context, e lang.Executor, fw lang.Framework) (campaign.Software, error) {
	img, err := p.places.Image(ctx, e, fw.Image)
	if err != nil {
		return campaign.Software{}, err
	}
	s := campaign.Software{Image: img.ID(), Place: campaign.Place{Executor: e.Type, Image: img.Ref(), ShmSize: e.ShmSize, IPCHost: e.IPC == "host"}}
	if fw.Program == "" {
		// A name on the image's PATH: what it is stands in the image's identity.
		s.Place.Program, s.Place.Env = programName(fw), img.Env()
		return s, nil
	}
	if program, d, ok := p.found.program(img.ID(), fw); ok {
		s.Place.Program, s.Digest = program, d
		return s, nil
	}
	s.Place.Program, s.Digest, err = p.program(ctx, img, fw)
	if err == nil {
		p.found.keep(img.ID(), fw, s.Place.Program, s.Digest)
	}
	return s, err
}

// programName is the server program's name inside an image.
func programName(fw lang.Framework) string {
	if fw.Definition.Server.Program != "" {
		return fw.Definition.Server.Program
	}
	return fw.Definition.Name
}

// program finds a framework's program in an image and fingerprints it, or the
// tree around it, as it would be on the host.
func (p *probing) program(ctx context.Context, img Image, fw lang.Framework) (string, key.Digest, error) {
	var none key.Digest
	dir, err := img.Root(ctx)
	if err != nil {
		return "", none, err
	}
	root, err := image.OpenRoot(dir)
	if err != nil {
		return "", none, err
	}
	defer root.Close() // only read
	found, err := root.Program(fw.Program, "")
	if errors.Is(err, fs.ErrNotExist) {
		search := image.PathOf(img.Env())
		if search == "" {
			search = campaign.DefaultPath
		}
		found, err = root.Program(programName(fw), search)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", none, fmt.Errorf("its image %s has neither %s nor a program %q on its PATH; write program in the server block of the definition %q, or put the program there", fw.Image, fw.Program, programName(fw), fw.Definition.Name)
	}
	if err != nil {
		return "", none, err
	}
	if fw.Tree != "" {
		rel, err := filepath.Rel(fw.Tree, fw.Program)
		if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
			return "", none, fmt.Errorf("the program %s does not lie in its tree %s", fw.Program, fw.Tree)
		}
		around, ok := strings.CutSuffix(found.Real, "/"+rel)
		if !ok || around == "" {
			return "", none, fmt.Errorf("in the image %s the program is %s, and its tree would be the folder that holds %s; put it into a folder of its own there", fw.Image, found.Real, rel)
		}
		tree, err := root.Lookup(around)
		if err != nil {
			return "", none, err
		}
		d, err := p.fresh.Tree(tree.Host)
		return found.Path, d, err
	}
	d, err := programDigest(found.Host, "", p.fresh)
	return found.Path, d, err
}
