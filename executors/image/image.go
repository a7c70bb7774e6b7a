// Package image reads and makes container images without a daemon: from a
// registry, a docker-archive or an OCI layout to an identity, a configuration
// and a root file system, and from files to a new image.
//
// It knows no container, no framework and no key. The main type is Image.
// go-containerregistry stays inside. Nothing that an image says is believed:
// layers are checked against their digests, names cannot leave the folder that
// they are unpacked into, and every size is bounded by what the disk holds.
//
// A reference is one of
//
//	REGISTRY/NAME:TAG, REGISTRY/NAME@sha256:…   a registry
//	docker-archive:PATH                         what `docker save` writes
//	oci:PATH, oci:PATH:TAG                      an OCI layout, a folder
//
// An error that is ErrUnusable will be the same next time; any other may go
// away (a registry that does not answer).
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ErrUnusable is what an error is when asking again cannot help: the reference
// is wrong, the image is not there, or it is damaged.
var ErrUnusable = errors.New("image cannot be used")

// unusable makes an error that is ErrUnusable without saying so twice.
func unusable(form string, args ...any) error { return &permanent{fmt.Errorf(form, args...)} }

type permanent struct{ error }

func (p *permanent) Is(target error) bool { return target == ErrUnusable }
func (p *permanent) Unwrap() error        { return p.error }

// Platform is what an image is made for. The zero Platform is linux on this
// host's processor.
type Platform struct{ OS, Architecture, Variant string }

func (p Platform) orHost() Platform {
	if p.OS == "" {
		p.OS = "linux"
	}
	if p.Architecture == "" {
		p.Architecture = runtime.GOARCH
	}
	return p
}

// Config is the part of an image's configuration that says how it is run. Its
// other parts (history, labels, times) change without a change of what runs.
// Health checks, shells and exposed ports are left out because they get lost
// between the formats of Docker and OCI.
type Config struct {
	Env        []string `json:"env,omitempty"` // NAME=value, in the image's order
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	WorkingDir string   `json:"working_dir,omitempty"`
	User       string   `json:"user,omitempty"`
	StopSignal string   `json:"stop_signal,omitempty"`
	Volumes    []string `json:"volumes,omitempty"` // sorted
}

// Image is an image whose manifest and configuration were read and checked. Its
// layers are read when they are needed.
type Image struct {
	Ref      string
	Platform Platform
	Config   Config
	// DiffIDs are the digests of the uncompressed layers, lowest first.
	DiffIDs []string
	// ConfigDigest is Docker's classic image id. ManifestDigest is what a
	// registry or a layout calls it; "" for a docker-archive, which has none.
	// Both change when an image is copied between formats: they are for
	// records, Identity is for keys.
	ConfigDigest, ManifestDigest string

	img v1.Image
}

// Identity is the same for the same content, wherever it comes from: "sha256:"
// and the hash of the JSON object of identity's fields, in their order, empty
// ones left out.
func (i *Image) Identity() string {
	text, err := json.Marshal(identity{i.Platform.OS, i.Platform.Architecture, i.Platform.Variant, i.DiffIDs, i.Config})
	if err != nil {
		panic("image: strings that cannot be encoded: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

type identity struct {
	OS           string   `json:"os"`
	Architecture string   `json:"architecture"`
	Variant      string   `json:"variant,omitempty"`
	DiffIDs      []string `json:"diff_ids"`
	Config       Config   `json:"config"`
}

// Open reads the manifest and the configuration of the image for a platform.
// It reads the network for a registry's reference only. Paths must be absolute.
// ctx also bounds the later reading of layers.
func Open(ctx context.Context, ref string, p Platform) (*Image, error) {
	p = p.orHost()
	kind, path, err := Split(ref)
	if err != nil {
		return nil, err
	}
	var img v1.Image
	var manifest string
	switch kind {
	case Archive:
		img, err = openArchive(path)
	case Layout:
		img, manifest, err = openLayout(path, p)
	default:
		img, manifest, err = openRegistry(ctx, ref, p)
	}
	if err != nil {
		return nil, err
	}
	return describe(ref, img, manifest, p)
}

// Kind is where a reference points to.
type Kind string

// The kinds, as they stand before the path.
const (
	Registry Kind = ""
	Archive  Kind = "docker-archive"
	Layout   Kind = "oci"
)

// Split takes a reference apart. path is absolute, or the whole reference for a
// registry. It reads nothing.
func Split(ref string) (kind Kind, path string, err error) {
	for _, k := range []Kind{Archive, Layout} {
		if path, ok := strings.CutPrefix(ref, string(k)+":"); ok {
			if !filepath.IsAbs(path) {
				return "", "", unusable("image %q: its path is not absolute", ref)
			}
			return k, path, nil
		}
	}
	if strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, ".") || strings.HasSuffix(ref, ".tar") {
		return "", "", unusable("image %q looks like a path; write docker-archive:PATH for a file of docker save, oci:PATH for an OCI layout", ref)
	}
	if _, err := parseRef(ref); err != nil {
		return "", "", err
	}
	return Registry, ref, nil
}

// describe takes from an image what is kept of it, and refuses what cannot be
// run here.
func describe(ref string, img v1.Image, manifest string, p Platform) (*Image, error) {
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of image %s: %w", ref, err)
	}
	f, err := img.ConfigFile()
	if err != nil {
		return nil, unusable("reading the configuration of image %s: %w", ref, err)
	}
	out := &Image{Ref: ref, img: img, ManifestDigest: manifest, Platform: Platform{f.OS, f.Architecture, f.Variant},
		Config: Config{Env: f.Config.Env, Entrypoint: f.Config.Entrypoint, Cmd: f.Config.Cmd, WorkingDir: f.Config.WorkingDir,
			User: f.Config.User, StopSignal: f.Config.StopSignal}}
	for name := range f.Config.Volumes {
		out.Config.Volumes = append(out.Config.Volumes, name)
	}
	slices.Sort(out.Config.Volumes)
	sum := sha256.Sum256(raw)
	out.ConfigDigest = "sha256:" + hex.EncodeToString(sum[:])
	for _, d := range f.RootFS.DiffIDs {
		out.DiffIDs = append(out.DiffIDs, d.String())
	}
	if f.OS != p.OS || f.Architecture != p.Architecture {
		return nil, unusable("image %s is made for %s/%s, and %s/%s is wanted; choose the image of that platform", ref, f.OS, f.Architecture, p.OS, p.Architecture)
	}
	if len(out.DiffIDs) == 0 {
		return nil, unusable("image %s has no layers: there is nothing to run in it", ref)
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, unusable("reading the layers of image %s: %w", ref, err)
	}
	if len(layers) != len(out.DiffIDs) {
		return nil, unusable("image %s names %d layers and has %d", ref, len(out.DiffIDs), len(layers))
	}
	return out, nil
}
