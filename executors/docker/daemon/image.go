package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	daemonimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/sotabuild/sotabuild/executors/image"
)

// Image describes an image as this daemon has it, with the same Identity that
// package image gives it elsewhere; its ConfigDigest is the daemon's own id for
// it, its ManifestDigest the registry's, where the daemon knows it. name is what
// the daemon calls it, or its id. One that is not there is ErrAbsent.
func (d *Daemon) Image(ctx context.Context, name string) (*image.Image, error) {
	in, err := d.cli.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("%w %s (%s)", ErrAbsent, name, d.Host())
	}
	if err != nil {
		return nil, fmt.Errorf("looking for image %s: %w", name, err)
	}
	img := &image.Image{
		Ref: name, Platform: image.Platform{OS: in.Os, Architecture: in.Architecture, Variant: in.Variant},
		DiffIDs: in.RootFS.Layers, ConfigDigest: in.ID,
	}
	if c := in.Config; c != nil {
		img.Config = image.Config{Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User, StopSignal: c.StopSignal}
		for v := range c.Volumes {
			img.Config.Volumes = append(img.Config.Volumes, v)
		}
		slices.Sort(img.Config.Volumes)
	}
	for _, pinned := range in.RepoDigests {
		if _, digest, ok := strings.Cut(pinned, "@"); ok {
			img.ManifestDigest = digest
		}
	}
	return img, nil
}

// Pull lets the daemon get an image from its registry, for its own platform. say
// gets a line every few seconds of a long one.
func (d *Daemon) Pull(ctx context.Context, ref string, login image.Credentials, say func(string)) error {
	o := daemonimage.PullOptions{Platform: "linux/" + d.Platform().Architecture}
	if login != (image.Credentials{}) {
		var err error
		o.RegistryAuth, err = registry.EncodeAuthConfig(registry.AuthConfig{
			Username: login.User, Password: login.Password, IdentityToken: login.IdentityToken, RegistryToken: login.RegistryToken,
		})
		if err != nil {
			return err
		}
	}
	body, err := d.cli.ImagePull(ctx, ref, o)
	if err != nil {
		return err
	}
	defer body.Close()
	return progress(ref, body, say)
}

// Load gives the daemon a docker-archive, whose names it takes over. ref is what
// say's lines call it.
func (d *Daemon) Load(ctx context.Context, archive io.Reader, ref string, say func(string)) error {
	answer, err := d.cli.ImageLoad(ctx, archive)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return progress(ref, answer.Body, say)
}

// Save writes an image that the daemon has as a docker-archive.
func (d *Daemon) Save(ctx context.Context, name string, w io.Writer) error {
	body, err := d.cli.ImageSave(ctx, []string{name})
	if err != nil {
		return err
	}
	defer body.Close() // only read
	_, err = io.Copy(w, body)
	return err
}

// RemoveImage removes an image's name, and its layers if nobody else has them.
// One that is not there is no error; one that a container uses stays, and that
// is the error.
func (d *Daemon) RemoveImage(ctx context.Context, name string) error {
	_, err := d.cli.ImageRemove(ctx, name, daemonimage.RemoveOptions{PruneChildren: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// sayEvery is how often a long pull says how far it is.
const sayEvery = 5 * time.Second

// progress reads what the daemon says of a pull or a load. Its last word on
// failure is an error of the stream, not of the request.
func progress(ref string, r io.Reader, say func(string)) error {
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
		say(fmt.Sprintf("image %s: %d of %d MB", ref, done>>20, all>>20))
	}
}
