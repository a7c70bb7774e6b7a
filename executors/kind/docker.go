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

func dockerOptions(s Setup, temp string) executor.Options {
	return executor.Options{
		Self: s.Self, Host: s.Options["host"], Certs: s.Options["certs"], Network: s.Options["network"],
		Files: executor.Files(s.Options["files"]), CDI: s.Options["gpus"] == "cdi",
		Temp: temp, Creating: s.creating("docker", reach(s)), Say: s.Say,
	}
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
	err := withDocker(ctx, s, func(e *executor.Executor) error { return e.Remove(ctx, t.Keeper, t.Name, t.ID) })
	switch {
	case errors.Is(err, executor.ErrNotOurs):
		return fmt.Errorf("%w: %w", ErrNotOurs, err)
	case errors.Is(err, executor.ErrAbsent):
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}

// dial connects; temp is for who brings images or takes them out.
func dial(ctx context.Context, s Setup, temp string) (*executor.Executor, error) {
	return executor.Dial(ctx, dockerOptions(s, temp))
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
	if name := s.Options["container"]; name != "" {
		e, err := executor.Enter(ctx, dockerOptions(s, temp), name, s.Tasks)
		if err != nil {
			return nil, err // not a nil *Inside in an interface
		}
		return e, nil
	}
	return dial(ctx, s, temp)
}

func withDocker(ctx context.Context, s Setup, do func(*executor.Executor) error) error {
	temp, err := s.Temp()
	if err != nil {
		return err
	}
	e, err := dial(ctx, s, temp)
	if err != nil {
		return err
	}
	return errors.Join(do(e), e.Close())
}

func dockerAnswers(ctx context.Context, s Setup) (string, error) {
	e, err := dial(ctx, s, "")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s (the oldest that works is %s)", e.Daemon(), executor.Floor), e.Close()
}

func openDocker(ctx context.Context, s Setup, ref string) (Image, error) {
	if img, ok, err := fileImage(ctx, s, ref); ok {
		return img, err
	}
	e, err := dial(ctx, s, "")
	if err != nil {
		return Image{}, err
	}
	img, err := e.Present(ctx, ref)
	if err = errors.Join(err, e.Close()); err != nil {
		if errors.Is(err, executor.ErrAbsent) {
			return Image{}, fmt.Errorf("%w: %w", ErrAbsent, err)
		}
		return Image{}, err
	}
	return Image{Identity: img.Identity(), Env: img.Config.Env, Ref: ref, Root: func(ctx context.Context) (root string, err error) {
		err = withDocker(ctx, s, func(e *executor.Executor) error {
			root, err = e.Unpack(ctx, ref, s.roots())
			return err
		})
		return root, err
	}}, nil
}

func pullDocker(ctx context.Context, s Setup, ref string, say func(string)) error {
	s.Say = say
	return withDocker(ctx, s, func(e *executor.Executor) error {
		_, err := e.Image(ctx, ref)
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
	return executor.LoadedName(img), nil
}

// dockerDisk is the daemon's folder, if it lies on this host.
func dockerDisk(ctx context.Context, s Setup) (dir string, err error) {
	err = withDocker(ctx, s, func(e *executor.Executor) error {
		if e.Local() {
			dir = filepath.Clean(e.Root())
		}
		return nil
	})
	return dir, err
}
