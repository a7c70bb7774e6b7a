package weights

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CheckShards checks the safetensors files of a folder: each holds exactly the
// bytes that its header describes, and every file that an index names is there
// with the tensors that the index looks for in it. It reads headers only. All
// that is wrong is said at once. A folder without such files passes.
func CheckShards(dir string) error {
	var errs []error
	tensors := map[string]map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".safetensors" {
			return err
		}
		names, err := shard(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(p), err))
		}
		tensors[p] = names
		return nil
	})
	if err != nil {
		return fmt.Errorf("checking shards: %w", err)
	}
	indexes, err := filepath.Glob(filepath.Join(dir, "*.safetensors.index.json"))
	if err != nil {
		return fmt.Errorf("checking shards: %w", err)
	}
	for _, index := range indexes {
		errs = append(errs, checkIndex(index, tensors)...)
	}
	return errors.Join(errs...)
}

func checkIndex(path string, tensors map[string]map[string]bool) (errs []error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return []error{err}
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil {
		return []error{fmt.Errorf("%s: %w", filepath.Base(path), err)}
	}
	missing := map[string]int{}
	for tensor, file := range index.Map {
		names, ok := tensors[filepath.Join(filepath.Dir(path), filepath.FromSlash(file))]
		if !ok || names != nil && !names[tensor] {
			missing[file]++
		}
	}
	var files []string
	for f := range missing {
		files = append(files, f)
	}
	slices.Sort(files)
	for _, f := range files {
		errs = append(errs, fmt.Errorf("%s: %d tensors that %s names are not in it, or it is missing", f, missing[f], filepath.Base(path)))
	}
	return errs
}

// maxHeader is the format's own bound of a header.
const maxHeader = 100 << 20

// shard reads a safetensors header: 8 bytes of its length, little-endian, then
// JSON with the data offsets of every tensor, then the data. It returns the
// tensors' names; nil with an error.
func shard(path string) (map[string]bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var size [8]byte
	if _, err := io.ReadFull(f, size[:]); err != nil {
		return nil, errors.New("it is too short for a safetensors file")
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxHeader || int64(n)+8 > st.Size() {
		return nil, fmt.Errorf("its header of %d bytes does not fit into its %d bytes", n, st.Size())
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(f, header); err != nil {
		return nil, fmt.Errorf("reading its header: %w", err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, fmt.Errorf("its header is no safetensors header: %w", err)
	}
	names := map[string]bool{}
	var end int64
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		var t struct {
			Offsets [2]int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &t); err != nil || t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] {
			return nil, fmt.Errorf("its header has no offsets for %q", strings.ToValidUTF8(name, "?"))
		}
		end = max(end, t.Offsets[1])
		names[name] = true
	}
	if want := 8 + int64(n) + end; want != st.Size() {
		return nil, fmt.Errorf("it has %d bytes, and its header describes %d", st.Size(), want)
	}
	return names, nil
}
