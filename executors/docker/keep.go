package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	daemonimage "github.com/docker/docker/api/types/image"

	"github.com/sotabuild/sotabuild/executors/image"
)

// ErrAbsent marks an image that the daemon does not have.
var ErrAbsent = errors.New("the daemon does not have the image")

const loadedPrefix = "sotabuild-image:"

// LoadedName is what the daemon calls an image that came from a file: it says
// the content, because a file's own tags could move other people's.
func LoadedName(img *image.Image) string {
	return loadedPrefix + strings.TrimPrefix(img.ConfigDigest, "sha256:")[:32]
}

// Present describes an image by its name if the daemon has it, like Image, and
// never brings one there. Otherwise the error is ErrAbsent.
func (e *Executor) Present(ctx context.Context, ref string) (*image.Image, error) {
	f, err := e.inspect(ctx, ref, ref)
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("%w %s (%s)", ErrAbsent, ref, e.cli.DaemonHost())
	}
	if err != nil {
		return nil, err
	}
	return &f.img, nil
}

// Unpack writes the files of an image that the daemon has below cache, like
// image.Image.Extract: it takes the image out of the daemon once.
func (e *Executor) Unpack(ctx context.Context, ref, cache string) (root string, err error) {
	present, err := e.Present(ctx, ref)
	if err != nil {
		return "", err
	}
	root = filepath.Join(cache, strings.TrimPrefix(present.Identity(), "sha256:"))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	dir, err := os.MkdirTemp(e.o.Temp, "sotabuild-image-")
	if err != nil {
		return "", fmt.Errorf("unpacking image %s: %w", ref, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "image.tar")
	if err := e.save(ctx, ref, path); err != nil {
		return "", fmt.Errorf("taking image %s out of the daemon: %w", ref, err)
	}
	img, err := image.Open(ctx, string(image.Archive)+":"+path, e.platform())
	if err != nil {
		return "", err
	}
	if img.Identity() != present.Identity() {
		return "", fmt.Errorf("taking image %s out of the daemon: it came as %s and is %s there", ref, img.Identity(), present.Identity())
	}
	return img.Extract(ctx, cache)
}

func (e *Executor) save(ctx context.Context, ref, path string) error {
	body, err := e.cli.ImageSave(ctx, []string{ref})
	if err != nil {
		return err
	}
	defer body.Close() // only read
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Close())
}

// ErrNotOurs marks an image that bears the name of one that was made, and is
// another one, or may be.
var ErrNotOurs = errors.New("it may be somebody else's")

// Remove removes an image's name from the daemon, and its layers if nobody else
// has them. daemon and id are what Creating and its answer were told: an image
// that another daemon has, or that has another id, or none that was ever told,
// stays, and the error is ErrNotOurs. One that a container uses stays, and that
// is the error; of one that is not there it is ErrAbsent.
func (e *Executor) Remove(ctx context.Context, daemon, name, id string) error {
	if daemon != e.info.ID {
		return fmt.Errorf("removing image %s: the daemon at %s is not the one that it was given to; start that one, or name it with DOCKER_HOST", name, e.cli.DaemonHost())
	}
	in, err := e.cli.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w %s", ErrAbsent, name)
	}
	if err != nil {
		return fmt.Errorf("removing image %s: %w", name, err)
	}
	// A name that only we give says the content itself.
	if in.ID != id && !(id == "" && strings.HasPrefix(name, loadedPrefix)) {
		return fmt.Errorf("image %s: %w, as it is not known to be what was made under this name; `docker image rm %s` removes it", name, ErrNotOurs, name)
	}
	_, err = e.cli.ImageRemove(ctx, name, daemonimage.RemoveOptions{PruneChildren: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing image %s: %w", name, err)
	}
	return nil
}

// Root is the daemon's folder, on the daemon's host.
func (e *Executor) Root() string { return e.info.DockerRootDir }

// Local reports whether the daemon is reached by a socket of this host.
func (e *Executor) Local() bool { return strings.HasPrefix(e.cli.DaemonHost(), "unix://") }
