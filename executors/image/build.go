package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is one file of an image that is made. Exactly one of Source, Data and
// Link says what it is; all empty makes a folder.
type File struct {
	Source string // a regular file of this host; links are followed
	Data   []byte
	Link   string      // the text of a symbolic link
	Mode   fs.FileMode // permission bits; 0 is 0755 for folders and executable sources, else 0644
}

// Build makes an image of one layer from files by their absolute paths in it.
// It is the same, byte for byte, wherever and whenever it is made: names are
// sorted, folders above them are added, owners are 0, times are the start of
// 1970, nothing is compressed. Sources are read now and again when the image is
// written or unpacked; one that has changed by then is an error.
func Build(files map[string]File, c Config, p Platform) (*Image, error) {
	p = p.orHost()
	entries, err := entriesOf(files)
	if err != nil {
		return nil, err
	}
	l := &layer{entries: entries, kind: types.DockerUncompressedLayer}
	if err := l.measure(); err != nil {
		return nil, err
	}
	img, err := assemble(l, c, p, types.DockerManifestSchema2, types.DockerConfigJSON)
	if err != nil {
		return nil, err
	}
	out, err := describe("a new image", img, "", p)
	if err != nil {
		return nil, err
	}
	out.Ref = ""
	return out, nil
}

func assemble(l *layer, c Config, p Platform, manifest, config types.MediaType) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, manifest), config)
	volumes := map[string]struct{}{}
	for _, v := range c.Volumes {
		volumes[v] = struct{}{}
	}
	if len(volumes) == 0 {
		volumes = nil
	}
	f := &v1.ConfigFile{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, Created: v1.Time{Time: time.Unix(0, 0).UTC()},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User,
			StopSignal: c.StopSignal, Volumes: volumes}}
	img, err := mutate.ConfigFile(base, f)
	if err != nil {
		return nil, fmt.Errorf("making an image: %w", err)
	}
	img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: l.kind, History: v1.History{Created: v1.Time{Time: time.Unix(0, 0).UTC()}}})
	if err != nil {
		return nil, fmt.Errorf("making an image: %w", err)
	}
	return img, nil
}

// WriteArchive writes what docker load reads, with this tag (NAME:TAG). The
// file is whole or not there at all, and what killed builds of it left goes.
func (i *Image) WriteArchive(file, tag string) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("writing an image: the tag %q is not NAME:TAG: %w", tag, err)
	}
	f, err := begin(file)
	if err != nil {
		return fmt.Errorf("writing an image: %w", err)
	}
	err = tarball.Write(ref, i.img, f)
	err = errors.Join(err, f.Chmod(0o644), f.Sync())
	if err == nil {
		err = os.Rename(f.Name(), file) // while it is locked
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing an image to %s: %w", file, err), os.Remove(f.Name()), f.Close())
	}
	return f.Close()
}

// WriteLayout writes an image that Build made as a new OCI layout with this
// tag. The folder must not exist; it is whole or not there at all.
func (i *Image) WriteLayout(dir, tag string) error {
	layers, err := i.img.Layers()
	if err != nil {
		return fmt.Errorf("writing an image: %w", err)
	}
	l, ok := layers[0].(*layer)
	if !ok {
		return errors.New("writing an image: only one that was built here is written as a layout; copy others with skopeo")
	}
	oci := *l
	oci.kind = types.OCIUncompressedLayer
	img, err := assemble(&oci, i.Config, i.Platform, types.OCIManifestSchema1, types.OCIConfigJSON)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("writing an image: %s is there already", dir)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*")
	if err != nil {
		return fmt.Errorf("writing an image: %w", err)
	}
	to, err := layout.Write(fresh, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err == nil {
		err = to.AppendImage(img, layout.WithAnnotations(map[string]string{refName: tag}),
			layout.WithPlatform(v1.Platform{OS: i.Platform.OS, Architecture: i.Platform.Architecture, Variant: i.Platform.Variant}))
	}
	err = errors.Join(err, os.Chmod(fresh, 0o755))
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing an image to %s: %w", dir, err), os.RemoveAll(fresh))
	}
	return nil
}

// entry is a file with the header that it gets.
type entry struct {
	header tar.Header
	file   File
}

func entriesOf(files map[string]File) ([]entry, error) {
	all := map[string]File{}
	for name, f := range files {
		if !path.IsAbs(name) || path.Clean(name) != name || name == "/" || strings.ContainsRune(name, 0) {
			return nil, fmt.Errorf("making an image: %q is not a clean absolute path", name)
		}
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			if above, ok := files[dir]; ok && (above.Source != "" || above.Data != nil || above.Link != "") {
				return nil, fmt.Errorf("making an image: %s is below %s, which is no folder", name, dir)
			}
			if _, ok := files[dir]; !ok {
				all[dir] = File{}
			}
		}
		all[name] = f
	}
	if len(all) == 0 {
		return nil, errors.New("making an image: there are no files")
	}
	var out []entry
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e, err := entryOf(name, all[name])
		if err != nil {
			return nil, fmt.Errorf("making an image: %w", err)
		}
		out = append(out, e)
	}
	return out, nil
}

func entryOf(name string, f File) (entry, error) {
	h := tar.Header{Name: strings.TrimPrefix(name, "/"), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	mode := fs.FileMode(0o644)
	switch {
	case f.Link != "" && f.Source == "" && f.Data == nil:
		h.Typeflag, h.Linkname, mode = tar.TypeSymlink, f.Link, 0o777
	case f.Source != "" && f.Link == "" && f.Data == nil:
		info, err := os.Stat(f.Source)
		if err != nil {
			return entry{}, err
		}
		if !info.Mode().IsRegular() {
			return entry{}, fmt.Errorf("%s is no regular file", f.Source)
		}
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		if info.Mode()&0o111 != 0 {
			mode = 0o755
		}
	case f.Data != nil && f.Link == "" && f.Source == "":
		h.Typeflag, h.Size = tar.TypeReg, int64(len(f.Data))
	case f.Link == "" && f.Source == "":
		h.Typeflag, mode = tar.TypeDir, 0o755
		h.Name += "/"
	default:
		return entry{}, fmt.Errorf("%s is more than one of a copy, data and a link", name)
	}
	if f.Mode != 0 {
		mode = f.Mode.Perm()
	}
	h.Mode = int64(mode)
	return entry{h, f}, nil
}

// layer is a v1.Layer that is written anew each time it is read: a program of
// hundreds of megabytes is never held in memory.
type layer struct {
	entries []entry
	kind    types.MediaType
	digest  v1.Hash
	size    int64
}

var _ v1.Layer = (*layer)(nil)

func (l *layer) measure() error {
	r, err := l.Uncompressed()
	if err != nil {
		return err
	}
	l.digest, l.size, err = v1.SHA256(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("making an image: %w", err)
	}
	return nil
}

func (l *layer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)            { return l.digest, nil }
func (l *layer) Size() (int64, error)                { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error) { return l.kind, nil }
func (l *layer) Compressed() (io.ReadCloser, error)  { return l.Uncompressed() }
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(l.write(w)) }() // ends with the reader's Close
	return r, nil
}

func (l *layer) write(w io.Writer) error {
	var sum io.Writer = w
	h := hasher()
	if l.digest != (v1.Hash{}) {
		sum = io.MultiWriter(w, h)
	}
	t := tar.NewWriter(sum)
	for _, e := range l.entries {
		header := e.header
		if err := t.WriteHeader(&header); err != nil {
			return err
		}
		if err := e.copyTo(t); err != nil {
			return fmt.Errorf("%s: %w", e.header.Name, err)
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	if got := h.sum(); l.digest != (v1.Hash{}) && got != l.digest {
		return fmt.Errorf("a file of the image has changed since it was made: %s, before %s", got, l.digest)
	}
	return nil
}

func (e entry) copyTo(w io.Writer) error {
	if e.header.Typeflag != tar.TypeReg {
		return nil
	}
	if e.file.Source == "" {
		_, err := io.Copy(w, bytes.NewReader(e.file.Data))
		return err
	}
	f, err := os.Open(e.file.Source)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(w, f, e.header.Size); err != nil {
		return fmt.Errorf("it has changed since the image was made: %w", err)
	}
	return nil
}

type hashing struct{ hash.Hash }

func hasher() hashing { return hashing{sha256.New()} }

func (h hashing) sum() v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}
