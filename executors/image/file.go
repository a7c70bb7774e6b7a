package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// limitJSON bounds what is read of manifests and configurations.
const limitJSON = 8 << 20

// openArchive opens what docker save wrote of one image.
func openArchive(path string) (v1.Image, error) {
	if err := scanArchive(path); err != nil {
		return nil, err
	}
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return nil, unusable("reading docker-archive %s: %w", path, err)
	}
	return img, nil
}

// scanArchive looks at all headers of an archive before anything is believed
// of it: what is read into memory is small, and every name stands once.
func scanArchive(file string) error {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return unusable("image docker-archive:%s: there is no such file; make it with docker save NAME:TAG > %s", file, filepath.Base(file))
	}
	if err != nil {
		return fmt.Errorf("opening an image: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return unusable("image docker-archive:%s: it is no regular file; write oci:PATH for a layout, which is a folder", file)
	}
	bad := func(form string, args ...any) error {
		return unusable("image docker-archive:%s: "+form, append([]any{file}, args...)...)
	}
	r := tar.NewReader(f)
	size := map[string]int64{}
	var manifest tarball.Manifest
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return bad("it is not a whole tar file: %w", err)
		}
		name := path.Clean(h.Name)
		if _, twice := size[name]; twice && h.Typeflag != tar.TypeDir {
			return bad("%q stands in it twice", h.Name)
		}
		if sparse(h) {
			return bad("%q is a sparse file, whose size costs nothing", h.Name)
		}
		size[name] = h.Size
		if name != "manifest.json" {
			continue
		}
		if h.Size > limitJSON {
			return bad("its manifest.json has %d bytes; %d is the limit", h.Size, limitJSON)
		}
		if err := json.NewDecoder(r).Decode(&manifest); err != nil {
			return bad("its manifest.json cannot be read: %w", err)
		}
	}
	switch {
	case manifest == nil:
		return bad("it has no manifest.json; make it with docker save NAME:TAG (a file of docker export is no image)")
	case len(manifest) != 1:
		var tags []string
		for _, m := range manifest {
			tags = append(tags, m.RepoTags...)
		}
		return bad("it holds %d images (%s); save one of them alone", len(manifest), strings.Join(tags, ", "))
	}
	config, ok := size[path.Clean(manifest[0].Config)]
	if !ok || config > limitJSON {
		return bad("its configuration %q is missing, or has more than %d bytes", manifest[0].Config, limitJSON)
	}
	if len(manifest[0].Layers) == 0 {
		return bad("it names no layers")
	}
	for _, l := range manifest[0].Layers {
		if _, ok := size[path.Clean(l)]; !ok {
			return bad("its layer %q is missing", l)
		}
	}
	return nil
}

func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

const refName = "org.opencontainers.image.ref.name"

// openLayout opens the image of a layout with this tag, or the only one of the
// platform. The digest is the manifest's.
func openLayout(ref string, p Platform) (v1.Image, string, error) {
	dir, tag := ref, ""
	if info, err := os.Stat(ref); err != nil || !info.IsDir() {
		if at := strings.LastIndexByte(ref, ':'); at > 0 {
			dir, tag = ref[:at], ref[at+1:]
		}
	}
	bad := func(form string, args ...any) error {
		return unusable("image oci:%s: "+form, append([]any{ref}, args...)...)
	}
	info, err := os.Stat(filepath.Join(dir, "index.json"))
	if err != nil || info.Size() > limitJSON {
		return nil, "", bad("%s is no OCI layout: it has no index.json of at most %d bytes; make one with skopeo copy FROM oci:PATH:TAG", dir, limitJSON)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, "", bad("it is no OCI layout: %w", err)
	}
	found, tags, err := candidates(index, tag, p, 0)
	switch {
	case err != nil:
		return nil, "", bad("reading its index: %w", err)
	case len(found) == 0 && tag != "":
		return nil, "", bad("no image of it has the tag %s and is for %s/%s; it has the tags %q", tag, p.OS, p.Architecture, tags)
	case len(found) != 1:
		return nil, "", bad("it holds %d images for %s/%s, with the tags %q; write oci:PATH:TAG", len(found), p.OS, p.Architecture, tags)
	}
	if err := checkLayoutImage(dir, found[0].Descriptor); err != nil {
		return nil, "", bad("%w", err)
	}
	img, err := found[0].index.Image(found[0].Digest)
	if err != nil {
		return nil, "", bad("%w", err)
	}
	return img, found[0].Digest.String(), nil
}

// candidate is an image that may be meant, with the index that names it.
type candidate struct {
	v1.Descriptor
	index v1.ImageIndex
}

// candidates are the images of an index that may be meant; an index inside it
// is looked into.
func candidates(index v1.ImageIndex, tag string, p Platform, depth int) (found []candidate, tags []string, err error) {
	m, err := index.IndexManifest()
	if err != nil || depth > 4 {
		return nil, nil, errors.Join(err, depthError(depth))
	}
	for _, d := range m.Manifests {
		name := d.Annotations[refName]
		if name != "" {
			tags = append(tags, name)
		}
		if tag != "" && name != tag || d.Size > limitJSON {
			continue
		}
		switch {
		case d.MediaType.IsIndex():
			below, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, nil, err
			}
			more, _, err := candidates(below, "", p, depth+1)
			if err != nil {
				return nil, nil, err
			}
			found = append(found, more...)
		case d.MediaType.IsImage() && (d.Platform == nil || d.Platform.OS == p.OS && d.Platform.Architecture == p.Architecture):
			found = append(found, candidate{d, index})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return strings.Compare(a.Digest.String(), b.Digest.String()) })
	found = slices.CompactFunc(found, func(a, b candidate) bool { return a.Digest == b.Digest })
	return found, tags, nil
}

func depthError(depth int) error {
	if depth > 4 {
		return errors.New("indexes are nested too deep")
	}
	return nil
}

// checkLayoutImage compares an image's manifest and its configuration with their
// digests: the library trusts what lies in a folder.
func checkLayoutImage(dir string, d v1.Descriptor) error {
	raw, err := checkedBlob(dir, d)
	if err != nil {
		return err
	}
	var m v1.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("its manifest cannot be read: %w", err)
	}
	if m.Config.MediaType != types.OCIConfigJSON && m.Config.MediaType != types.DockerConfigJSON {
		return fmt.Errorf("it is an artefact of type %q, not an image", m.Config.MediaType)
	}
	_, err = checkedBlob(dir, m.Config)
	return err
}

func checkedBlob(dir string, d v1.Descriptor) ([]byte, error) {
	if d.Size > limitJSON {
		return nil, fmt.Errorf("its blob %s has %d bytes; %d is the limit", d.Digest, d.Size, limitJSON)
	}
	f, err := os.Open(filepath.Join(dir, "blobs", d.Digest.Algorithm, d.Digest.Hex))
	if err != nil {
		return nil, fmt.Errorf("a blob is missing: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limitJSON+1))
	if err != nil {
		return nil, err
	}
	got, _, err := v1.SHA256(strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	if got != d.Digest {
		return nil, fmt.Errorf("its blob %s is damaged: its bytes are %s", d.Digest, got)
	}
	return raw, nil
}
