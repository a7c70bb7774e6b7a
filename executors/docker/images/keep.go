package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/image"
)

// Unpack writes the files of an image that the daemon has below cache, like
// image.Image.Extract: it takes the image out of the daemon once. One that the
// daemon does not have is daemon.ErrAbsent.
func (s *Store) Unpack(ctx context.Context, ref, cache string) (root string, err error) {
	present, err := s.d.Image(ctx, ref)
	if err != nil {
		return "", err
	}
	root = filepath.Join(cache, strings.TrimPrefix(present.Identity(), "sha256:"))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	dir, err := os.MkdirTemp(s.o.Temp, "sotabuild-image-")
	if err != nil {
		return "", fmt.Errorf("unpacking image %s: %w", ref, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "image.tar")
	if err := s.save(ctx, ref, path); err != nil {
		return "", fmt.Errorf("taking image %s out of the daemon: %w", ref, err)
	}
	img, err := image.Open(ctx, string(image.Archive)+":"+path, s.d.Platform())
	if err != nil {
		return "", err
	}
	if img.Identity() != present.Identity() {
		return "", fmt.Errorf("taking image %s out of the daemon: it came as %s and is %s there", ref, img.Identity(), present.Identity())
	}
	return img.Extract(ctx, cache)
}

func (s *Store) save(ctx context.Context, ref, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(s.d.Save(ctx, ref, f), f.Close())
}

// ErrNotOurs marks an image that bears the name of one that was made, and is
// another one, or may be.
var ErrNotOurs = errors.New("it may be somebody else's")

// Remove removes an image's name from the daemon, and its layers if nobody else
// has them. owner and id are what Creating and its answer were told: an image
// that another daemon has, or that has another id, or none that was ever told,
// stays, and the error is ErrNotOurs. One that a container uses stays, and that
// is the error; of one that is not there it is daemon.ErrAbsent.
func (s *Store) Remove(ctx context.Context, owner, name, id string) error {
	if owner != s.d.ID() {
		return fmt.Errorf("removing image %s: the daemon at %s is not the one that it was given to; start that one, or name it with DOCKER_HOST", name, s.d.Host())
	}
	there, err := s.d.Image(ctx, name)
	if errors.Is(err, daemon.ErrAbsent) {
		return err
	}
	if err != nil {
		return fmt.Errorf("removing image %s: %w", name, err)
	}
	// A name that only we give says the content itself.
	if there.ConfigDigest != id && !(id == "" && strings.HasPrefix(name, loadedPrefix)) {
		return fmt.Errorf("image %s: %w, as it is not known to be what was made under this name; `docker image rm %s` removes it", name, ErrNotOurs, name)
	}
	if err := s.d.RemoveImage(ctx, name); err != nil {
		return fmt.Errorf("removing image %s: %w", name, err)
	}
	return nil
}
