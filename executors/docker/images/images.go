// Package images brings images to a Docker daemon, takes their files out of it,
// and removes again what it brought. The main type is Store.
//
// What is about to be made in a daemon is told to Options.Creating before: it
// stays there beside our store and our tasks, and only what is known to be ours
// is ever removed. An image that comes from a file gets a name of ours that says
// its content, because a file's own tags could move other people's.
//
// The package knows no container and no task, and keeps no files but in
// Options.Temp while it works. Errors are those of packages image and daemon.
package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/image"
)

// Options say who hears of images. The zero value is nobody.
type Options struct {
	// Creating is told of an image before it is pulled or loaded, by the name
	// that the daemon will have for it and the daemon's own identity; an error of
	// it ends the attempt. What it returns is told the daemon's id of the image
	// that was made. nil wants to know nothing.
	Creating func(daemon, image string) (made func(id string) error, err error)
	// Temp is the folder for images on their way to or from the daemon; "" is
	// the system's.
	Temp string
	// Say gets a line where something takes long. nil hears nothing. It may be
	// called by many goroutines.
	Say func(string)
}

// Store is the images of one daemon. Its methods may be called by many
// goroutines.
type Store struct {
	d *daemon.Daemon
	o Options

	mu   sync.Mutex              // guards have
	have map[string]*image.Image // by reference; nobody writes to them
}

// Of returns the images of a daemon, which stays the caller's to close.
func Of(d *daemon.Daemon, o Options) *Store {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Creating == nil {
		o.Creating = func(string, string) (func(string) error, error) { return func(string) error { return nil }, nil }
	}
	return &Store{d: d, o: o, have: map[string]*image.Image{}}
}

// Check says why a reference can never be run; nil if it may. It pulls nothing:
// what has to be pulled is seen later.
func (s *Store) Check(ctx context.Context, ref string) error {
	kind, path, badRef := image.Split(ref)
	if badRef == nil && kind != image.Registry {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
		return nil
	}
	if badRef == nil {
		return nil
	}
	// A short name is what the daemon makes of it; it is taken where it is
	// there already.
	_, err := s.d.Image(ctx, ref)
	if errors.Is(err, daemon.ErrAbsent) || daemon.Invalid(err) {
		return fmt.Errorf("the daemon has no image of this name, and it cannot be pulled: %w", badRef)
	}
	return err
}

// Get describes the image of a reference as Daemon.Image does. One that the
// daemon does not have is pulled or loaded first; each is asked for once, and
// the answer is the caller's to read only. An error that is not daemon.Away, or
// is image.ErrUnusable, will be the same next time.
func (s *Store) Get(ctx context.Context, ref string) (*image.Image, error) {
	s.mu.Lock()
	img := s.have[ref]
	s.mu.Unlock()
	if img != nil {
		return img, nil
	}
	kind, _, badRef := image.Split(ref)
	var err error
	if badRef == nil && kind != image.Registry {
		img, err = s.load(ctx, ref)
	} else if img, err = s.d.Image(ctx, ref); errors.Is(err, daemon.ErrAbsent) {
		if badRef != nil {
			return nil, badRef
		}
		img, err = s.pull(ctx, ref)
	}
	if err != nil {
		return nil, err
	}
	img.Ref = ref
	s.mu.Lock()
	s.have[ref] = img
	s.mu.Unlock()
	return img, nil
}

const loadedPrefix = "sotabuild-image:"

// LoadedName is what the daemon calls an image that came from a file.
func LoadedName(img *image.Image) string {
	return loadedPrefix + strings.TrimPrefix(img.ConfigDigest, "sha256:")[:32]
}

// load brings an archive or a layout to the daemon.
func (s *Store) load(ctx context.Context, ref string) (*image.Image, error) {
	img, err := image.Open(ctx, ref, s.d.Platform())
	if err != nil {
		return nil, err
	}
	tag := LoadedName(img)
	there, err := s.d.Image(ctx, tag)
	if err == nil && slices.Equal(there.DiffIDs, img.DiffIDs) {
		return there, nil
	}
	if err != nil && !errors.Is(err, daemon.ErrAbsent) {
		return nil, err
	}
	made, err := s.o.Creating(s.d.ID(), tag)
	if err != nil {
		return nil, err
	}
	s.o.Say(fmt.Sprintf("loading image %s as %s", ref, tag))
	if err := s.send(ctx, img, tag); err != nil {
		return nil, err
	}
	if there, err = s.d.Image(ctx, tag); err != nil {
		return nil, err
	}
	if !slices.Equal(there.DiffIDs, img.DiffIDs) {
		return nil, fmt.Errorf("loading image %s: the daemon's %s has other layers than the file", ref, tag)
	}
	return there, made(there.ConfigDigest)
}

// send gives an image to the daemon under a name.
func (s *Store) send(ctx context.Context, img *image.Image, tag string) error {
	dir, err := os.MkdirTemp(s.o.Temp, "sotabuild-image-")
	if err != nil {
		return fmt.Errorf("loading image %s: %w", img.Ref, err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "image.tar")
	if err := img.WriteArchive(path, tag); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("loading image %s: %w", img.Ref, err)
	}
	defer file.Close()
	if err := s.d.Load(ctx, file, img.Ref, s.o.Say); err != nil {
		return fmt.Errorf("loading image %s: %w", img.Ref, err)
	}
	return nil
}

// pull gets an image from its registry, with the credentials of docker login.
func (s *Store) pull(ctx context.Context, ref string) (*image.Image, error) {
	login, err := image.Login(ref)
	if err != nil {
		return nil, err
	}
	made, err := s.o.Creating(s.d.ID(), ref)
	if err != nil {
		return nil, err
	}
	s.o.Say("pulling image " + ref)
	if err := s.d.Pull(ctx, ref, login, s.o.Say); err != nil {
		return nil, fmt.Errorf("pulling image %s: %w", ref, err)
	}
	img, err := s.d.Image(ctx, ref)
	if err != nil {
		return nil, err
	}
	return img, made(img.ConfigDigest)
}
