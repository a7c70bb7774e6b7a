package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	daemonimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/sotabuild/sotabuild/executors/image"
)

// found is an image that the daemon has.
type found struct {
	id  string // the daemon's own name for it; a container is made from this
	img image.Image
}

// Image describes the image of a reference as this daemon has it, with the same
// Identity that package image gives it elsewhere. An image that is not there is
// pulled or loaded first. ManifestDigest is the registry's, where the daemon
// knows it.
func (e *Executor) Image(ctx context.Context, ref string) (*image.Image, error) {
	f, err := e.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &f.img, nil
}

// checkImage says why a reference can never be run. What has to be pulled is
// seen later.
func (e *Executor) checkImage(ctx context.Context, ref string) error {
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
	_, err := e.inspect(ctx, ref, ref)
	if errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) {
		return fmt.Errorf("the daemon has no image of this name, and it cannot be pulled: %w", badRef)
	}
	return err
}

// resolve finds, pulls or loads an image once.
func (e *Executor) resolve(ctx context.Context, ref string) (*found, error) {
	e.mu.Lock()
	f := e.images[ref]
	e.mu.Unlock()
	if f != nil {
		return f, nil
	}
	kind, _, badRef := image.Split(ref)
	var err error
	if badRef == nil && kind != image.Registry {
		f, err = e.load(ctx, ref)
	} else if f, err = e.inspect(ctx, ref, ref); errdefs.IsNotFound(err) {
		if badRef != nil {
			return nil, badRef
		}
		f, err = e.pull(ctx, ref)
	}
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.images[ref] = f
	e.mu.Unlock()
	return f, nil
}

// inspect asks the daemon for an image. name is what the daemon calls it.
func (e *Executor) inspect(ctx context.Context, ref, name string) (*found, error) {
	in, err := e.cli.ImageInspect(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("looking for image %s: %w", ref, err)
	}
	f := &found{id: in.ID, img: image.Image{
		Ref: ref, Platform: image.Platform{OS: in.Os, Architecture: in.Architecture, Variant: in.Variant},
		DiffIDs: in.RootFS.Layers, ConfigDigest: in.ID,
	}}
	if c := in.Config; c != nil {
		f.img.Config = image.Config{Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User, StopSignal: c.StopSignal}
		for v := range c.Volumes {
			f.img.Config.Volumes = append(f.img.Config.Volumes, v)
		}
		slices.Sort(f.img.Config.Volumes)
	}
	for _, pinned := range in.RepoDigests {
		if _, digest, ok := strings.Cut(pinned, "@"); ok {
			f.img.ManifestDigest = digest
		}
	}
	return f, nil
}

func (e *Executor) platform() image.Platform {
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[e.info.Architecture]
	if arch == "" {
		arch = e.info.Architecture
	}
	return image.Platform{OS: "linux", Architecture: arch}
}

// load brings an archive or a layout to the daemon, under a name of ours that
// says its content: an archive's own tags could move other people's.
func (e *Executor) load(ctx context.Context, ref string) (*found, error) {
	img, err := image.Open(ctx, ref, e.platform())
	if err != nil {
		return nil, err
	}
	tag := LoadedName(img)
	f, err := e.inspect(ctx, ref, tag)
	if err == nil && slices.Equal(f.img.DiffIDs, img.DiffIDs) {
		return f, nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return nil, err
	}
	made, err := e.o.Creating(e.info.ID, tag)
	if err != nil {
		return nil, err
	}
	e.o.Say(fmt.Sprintf("loading image %s as %s", ref, tag))
	dir, err := os.MkdirTemp(e.o.Temp, "sotabuild-image-")
	if err != nil {
		return nil, fmt.Errorf("loading image %s: %w", ref, err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "image.tar")
	if err := img.WriteArchive(path, tag); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("loading image %s: %w", ref, err)
	}
	defer file.Close()
	answer, err := e.cli.ImageLoad(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("loading image %s: %w", ref, err)
	}
	defer answer.Body.Close()
	if err := e.progress(ref, answer.Body); err != nil {
		return nil, fmt.Errorf("loading image %s: %w", ref, err)
	}
	if f, err = e.inspect(ctx, ref, tag); err != nil {
		return nil, err
	}
	if !slices.Equal(f.img.DiffIDs, img.DiffIDs) {
		return nil, fmt.Errorf("loading image %s: the daemon's %s has other layers than the file", ref, tag)
	}
	return f, made(f.id)
}

// pull gets an image from its registry, with the credentials of docker login.
func (e *Executor) pull(ctx context.Context, ref string) (*found, error) {
	login, err := image.Login(ref)
	if err != nil {
		return nil, err
	}
	o := daemonimage.PullOptions{Platform: "linux/" + e.platform().Architecture}
	if login != (image.Credentials{}) {
		o.RegistryAuth, err = registry.EncodeAuthConfig(registry.AuthConfig{
			Username: login.User, Password: login.Password, IdentityToken: login.IdentityToken, RegistryToken: login.RegistryToken,
		})
		if err != nil {
			return nil, fmt.Errorf("pulling image %s: %w", ref, err)
		}
	}
	made, err := e.o.Creating(e.info.ID, ref)
	if err != nil {
		return nil, err
	}
	e.o.Say("pulling image " + ref)
	body, err := e.cli.ImagePull(ctx, ref, o)
	if err != nil {
		return nil, fmt.Errorf("pulling image %s: %w", ref, err)
	}
	defer body.Close()
	if err := e.progress(ref, body); err != nil {
		return nil, fmt.Errorf("pulling image %s: %w", ref, err)
	}
	f, err := e.inspect(ctx, ref, ref)
	if err != nil {
		return nil, err
	}
	return f, made(f.id)
}

// sayEvery is how often a long pull says how far it is.
const sayEvery = 5 * time.Second

// progress reads what the daemon says of a pull or a load. Its last word on
// failure is an error of the stream, not of the request.
func (e *Executor) progress(ref string, r io.Reader) error {
	type message struct {
		Status, ID, Error string
		ProgressDetail    struct{ Current, Total int64 }
	}
	layers := map[string][2]int64{}
	said := time.Now()
	for d := json.NewDecoder(r); ; {
		var m message
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
		if m.Status == "Downloading" || m.Status == "Loading layer" {
			layers[m.ID] = [2]int64{m.ProgressDetail.Current, m.ProgressDetail.Total}
		}
		if len(layers) == 0 || time.Since(said) < sayEvery {
			continue
		}
		said = time.Now()
		var done, all int64
		for _, l := range layers {
			done, all = done+l[0], all+l[1]
		}
		e.o.Say(fmt.Sprintf("image %s: %d of %d MB", ref, done>>20, all>>20))
	}
}
