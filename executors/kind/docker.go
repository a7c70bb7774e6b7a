package kind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/creation"
	executor "github.com/sotabuild/sotabuild/executors/docker"
	"github.com/sotabuild/sotabuild/executors/docker/daemon"
	"github.com/sotabuild/sotabuild/executors/docker/images"
	"github.com/sotabuild/sotabuild/executors/docker/inside"
	"github.com/sotabuild/sotabuild/executors/image"
)

var docker = Kind{
	Name: "docker", Images: true, Help: "start Docker's daemon, or name another one with DOCKER_HOST or options = { host = \"…\" }",
	New:     newDocker,
	Answers: dockerAnswers,
	Open:    openDocker,
	Pull:    pullDocker,
	Remove:  removeDocker,
	Holds:   dockerName,
	Disk:    dockerDisk,
}

// reach are the options that reach the same daemon also when our environment
// names another one.
func reach(s Setup) map[string]string {
	out := map[string]string{}
	for option, variable := range map[string]string{"host": "DOCKER_HOST", "certs": "DOCKER_CERT_PATH"} {
		if v := cmp.Or(s.Options[option], os.Getenv(variable)); v != "" {
			out[option] = v
		}
	}
	return out
}

// removeDocker removes an image from the daemon that was given it.
func removeDocker(ctx context.Context, s Setup, t creation.Thing) error {
	s.Options = t.Reach
	err := withImages(ctx, s, func(i *images.Store) error { return i.Remove(ctx, t.Keeper, t.Name, t.ID) })
	switch {
	case errors.Is(err, images.ErrNotOurs):
		return fmt.Errorf("%w: %w", ErrNotOurs, err)
	case errors.Is(err, daemon.ErrAbsent):
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}

// dial connects to the daemon that the options say.
func dial(ctx context.Context, s Setup) (*daemon.Daemon, error) {
	return daemon.Dial(ctx, daemon.Options{Host: s.Options["host"], Certs: s.Options["certs"], Self: s.Self})
}

// imagesOf are the daemon's images; temp is for those on their way there or out.
func imagesOf(d *daemon.Daemon, s Setup, temp string) *images.Store {
	return images.Of(d, images.Options{Temp: temp, Creating: s.creating("docker", reach(s)), Say: s.Say})
}

// newDocker dials with a bound of its own: what it makes lives longer than the
// question.
func newDocker(s Setup) (executors.Executor, error) {
	temp, err := s.Temp()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := dial(ctx, s)
	if err != nil {
		return nil, err
	}
	if name := s.Options["container"]; name != "" {
		e, err := inside.Enter(d, name, s.Tasks)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return e, nil
	}
	return executor.New(d, imagesOf(d, s, temp), executor.Options{
		Network: s.Options["network"], Files: executor.Files(s.Options["files"]), CDI: s.Options["gpus"] == "cdi", Say: s.Say,
	}), nil
}

func withDaemon(ctx context.Context, s Setup, do func(*daemon.Daemon) error) error {
	d, err := dial(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}

func withImages(ctx context.Context, s Setup, do func(*images.Store) error) error {
	temp, err := s.Temp()
	if err != nil {
		return err
	}
	return withDaemon(ctx, s, func(d *daemon.Daemon) error { return do(imagesOf(d, s, temp)) })
}

func dockerAnswers(ctx context.Context, s Setup) (answer string, err error) {
	err = withDaemon(ctx, s, func(d *daemon.Daemon) error {
		answer = fmt.Sprintf("%s (the oldest that works is %s)", d, daemon.Floor)
		return nil
	})
	return answer, err
}

func openDocker(ctx context.Context, s Setup, ref string) (Image, error) {
	if img, ok, err := fileImage(ctx, s, ref); ok {
		return img, err
	}
	var img *image.Image
	err := withDaemon(ctx, s, func(d *daemon.Daemon) (err error) {
		img, err = d.Image(ctx, ref)
		return err
	})
	if err != nil {
		if errors.Is(err, daemon.ErrAbsent) {
			return Image{}, fmt.Errorf("%w: %w", ErrAbsent, err)
		}
		return Image{}, err
	}
	return Image{Identity: img.Identity(), Env: img.Config.Env, Ref: ref, Root: func(ctx context.Context) (root string, err error) {
		err = withImages(ctx, s, func(i *images.Store) error {
			root, err = i.Unpack(ctx, ref, s.roots())
			return err
		})
		return root, err
	}}, nil
}

func pullDocker(ctx context.Context, s Setup, ref string, say func(string)) error {
	s.Say = say
	return withImages(ctx, s, func(i *images.Store) error {
		_, err := i.Get(ctx, ref)
		return err
	})
}

// dockerName is what the daemon calls the image of a reference.
func dockerName(ctx context.Context, ref string) (string, error) {
	if _, ok := filePath(ref); !ok {
		return ref, nil
	}
	img, err := image.Open(ctx, ref, image.Platform{})
	if err != nil {
		return "", err
	}
	return images.LoadedName(img), nil
}

// dockerDisk is the daemon's folder, if it lies on this host.
func dockerDisk(ctx context.Context, s Setup) (dir string, err error) {
	err = withDaemon(ctx, s, func(d *daemon.Daemon) error {
		if d.Local() {
			dir = filepath.Clean(d.Root())
		}
		return nil
	})
	return dir, err
}
