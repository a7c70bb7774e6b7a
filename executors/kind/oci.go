package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/creation"
	"github.com/sotabuild/sotabuild/executors/image"
	executor "github.com/sotabuild/sotabuild/executors/oci"
)

var oci = Kind{
	Name: "oci", Images: true, Help: "as root: apt-get install runc",
	New:     func(s Setup) (executors.Executor, error) { return newOCI(s), nil },
	Answers: ociAnswers,
	Probe:   func(ctx context.Context, s Setup) error { return newOCI(s).Probe(ctx) },
	Open:    openOCI,
	Pull:    pullOCI,
}

func newOCI(s Setup) *executor.Executor {
	return executor.New(executor.Options{Self: s.Self, Folder: s.Folder, Runtime: s.Options["runtime"], Roots: []string{s.Tasks}, Temp: creation.SystemTemp})
}

func ociAnswers(ctx context.Context, s Setup) (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("an OCI runtime needs root here")
	}
	names := []string{"runc", "crun"}
	if s.Options["runtime"] != "" {
		names = []string{s.Options["runtime"]}
	}
	for _, n := range names {
		path, err := exec.LookPath(n)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			return "", fmt.Errorf("%s --version: %w", path, err)
		}
		version, _, _ := strings.Cut(string(out), "\n")
		return version, nil
	}
	return "", fmt.Errorf("there is no runtime (%s) on the PATH; install runc", strings.Join(names, ", "))
}

// pulled is what is written down of an image of a registry, so that plan needs
// no network.
type pulled struct {
	Ref      string   `json:"ref"`
	Pinned   string   `json:"pinned"`
	Identity string   `json:"identity"`
	Env      []string `json:"env,omitempty"`
	Root     string   `json:"root"`
}

func pulledFile(s Setup) string { return filepath.Join(s.Folder, "pulled.json") }

func readPulled(s Setup) (map[string]pulled, error) {
	known := map[string]pulled{}
	b, err := os.ReadFile(pulledFile(s))
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which images were pulled: %w", err)
	}
	if json.Unmarshal(b, &known) != nil || known == nil {
		known = map[string]pulled{} // It is as good as none: they are pulled again.
	}
	return known, nil
}

func openOCI(ctx context.Context, s Setup, ref string) (Image, error) {
	if img, ok, err := fileImage(ctx, s, ref); ok {
		return img, err
	}
	if _, _, err := image.Split(ref); err != nil {
		return Image{}, err
	}
	known, err := readPulled(s)
	if err != nil {
		return Image{}, err
	}
	p, ok := known[ref]
	if !ok {
		return Image{}, fmt.Errorf("%w: %s was not pulled for oci", ErrAbsent, ref)
	}
	if _, err := os.Stat(p.Root); err != nil {
		return Image{}, fmt.Errorf("%w: the files of %s were removed", ErrAbsent, ref)
	}
	return Image{Identity: p.Identity, Env: p.Env, Ref: p.Pinned, Root: func(context.Context) (string, error) { return p.Root, nil }}, nil
}

func pullOCI(ctx context.Context, s Setup, ref string, say func(string)) error {
	img, err := image.Open(ctx, ref, image.Platform{})
	if err != nil {
		return err
	}
	say(fmt.Sprintf("%s: %d layers", img.Pinned(), len(img.DiffIDs)))
	// By its digest, so that a task in it asks no registry.
	files, err := image.Unpack(ctx, img.Pinned(), image.Platform{}, s.roots())
	if err != nil {
		return err
	}
	known, err := readPulled(s)
	if err != nil {
		return err
	}
	// Under both names: the campaign has ref, and its tasks the pinned one.
	for _, name := range []string{ref, img.Pinned()} {
		known[name] = pulled{name, img.Pinned(), files.Identity, files.Config.Env, files.Dir}
	}
	b, err := json.MarshalIndent(known, "", " ")
	if err != nil {
		return fmt.Errorf("writing down which images were pulled: %w", err)
	}
	if err := os.WriteFile(pulledFile(s)+".new", b, 0o600); err != nil {
		return fmt.Errorf("writing down which images were pulled: %w", err)
	}
	return os.Rename(pulledFile(s)+".new", pulledFile(s))
}
