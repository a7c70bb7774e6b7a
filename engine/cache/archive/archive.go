// Package archive keeps records with their outputs as plain files in a folder,
// such as a run directory, and takes them from there into another store. It
// knows no campaign and no plan.
//
// The list of records is a text: a head, then one record a line with the files
// that hold its outputs. Each line begins with the sha256 of the rest of it, so
// that a damaged line is known by its number; what a line says of a file is the
// file's own digest, so that a damaged or foreign file is known by its name. A
// record goes into a store only with a key that is its manifest's and with all
// of its outputs.
package archive

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

// List is the path of the list of records below the folder, with slashes.
const List = "records/records.txt"

// objects is where outputs lie that have no other file.
const objects = "records/objects/"

// version is that of the list.
const version = 1

type head struct {
	V       int    `json:"v"`
	Name    string `json:"name"` // what the records are of, for people
	Records int    `json:"records"`
}

// entry is one record. Files are the paths of its outputs by their names.
type entry struct {
	Record cache.Record      `json:"record"`
	Files  map[string]string `json:"files,omitempty"`
}

// Files adds to the files of a folder, by path with slashes, the list of the
// records and those of their outputs that have no file yet. name is what the
// records are of. Each record stands in the list once, by serial.
func Files(name string, records []*cache.Record, r cache.Reader, files map[string][]byte) error {
	where := map[key.Digest]string{}
	for _, path := range sortedPaths(files) {
		if d := key.Sum(files[path]); where[d] == "" {
			where[d] = path
		}
	}
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b *cache.Record) int { return int(int64(a.Serial) - int64(b.Serial)) })
	records = slices.CompactFunc(records, func(a, b *cache.Record) bool { return a.Serial == b.Serial })
	var list bytes.Buffer
	if err := addLine(&list, head{version, name, len(records)}); err != nil {
		return err
	}
	for _, rec := range records {
		e := entry{Record: *rec, Files: map[string]string{}}
		for _, o := range rec.Outputs {
			if where[o.Digest] == "" {
				b, err := r.Bytes(o.Digest)
				if err != nil {
					return fmt.Errorf("archiving output %q of %s: %w", o.Name, rec.Node, err)
				}
				path := objects + hex.EncodeToString(o.Digest[:])
				files[path], where[o.Digest] = b, path
			}
			e.Files[o.Name] = where[o.Digest]
		}
		if err := addLine(&list, e); err != nil {
			return fmt.Errorf("archiving %s: %w", rec.Node, err)
		}
	}
	files[List] = list.Bytes()
	return nil
}

func sortedPaths(files map[string][]byte) []string {
	var paths []string
	for p := range files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

func addLine(w *bytes.Buffer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := key.Sum(b)
	fmt.Fprintf(w, "%x %s\n", d[:], b)
	return nil
}

// Archive is a list that was read.
type Archive struct {
	Name    string // what the records are of
	entries []entry
	// Refused are the lines and files that are damaged or foreign, each by its
	// name with what is wrong with it.
	Refused []string
	fsys    fs.FS
}

// Open reads the list of the folder fsys, which must follow no link out of it
// (os.Root.FS). A folder without a list, or with one of another version, is an
// error.
func Open(fsys fs.FS) (*Archive, error) {
	f, err := fsys.Open(List)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it has no %s: name a run directory that apply or report wrote", List)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	var h head
	if !lines.Scan() {
		return nil, errors.Join(fmt.Errorf("%s is empty", List), lines.Err())
	}
	if err := readLine(lines.Text(), &h); err != nil {
		return nil, fmt.Errorf("%s line 1: %w", List, err)
	}
	if h.V != version {
		return nil, fmt.Errorf("%s has version %d, this build knows %d", List, h.V, version)
	}
	a := &Archive{Name: h.Name, fsys: fsys}
	n := 0
	for ; lines.Scan(); n++ {
		var e entry
		err := readLine(lines.Text(), &e)
		if err == nil {
			err = check(e)
		}
		if err != nil {
			a.refuse("%s line %d: %v", List, n+2, err)
			continue
		}
		a.entries = append(a.entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", List, err)
	}
	if n != h.Records {
		a.refuse("%s: it has %d records and says that it has %d", List, n, h.Records)
	}
	return a, nil
}

func (a *Archive) refuse(format string, args ...any) {
	a.Refused = append(a.Refused, fmt.Sprintf(format, args...))
}

func readLine(line string, into any) error {
	sum, body, _ := strings.Cut(line, " ")
	if d := key.Sum([]byte(body)); sum != hex.EncodeToString(d[:]) {
		return errors.New("its bytes are not those that were written")
	}
	return json.Unmarshal([]byte(body), into)
}

// check passes a record that says itself what its key is.
func check(e entry) error {
	if v := e.Record.Version; !cache.Readable(v) {
		return fmt.Errorf("the record of %s has version %d, this build knows %d", e.Record.Node, v, cache.RecordVersion)
	}
	m, err := key.ParseManifest(e.Record.Manifest)
	if err != nil {
		return fmt.Errorf("the manifest of %s: %w", e.Record.Node, err)
	}
	if m.Key() != e.Record.Key {
		return fmt.Errorf("the key of %s is not that of its manifest", e.Record.Node)
	}
	for _, o := range e.Record.Outputs {
		if p := e.Files[o.Name]; !fs.ValidPath(p) || p == "." {
			return fmt.Errorf("output %q of %s has the file %q, which is no path in the folder", o.Name, e.Record.Node, p)
		}
	}
	return nil
}

// bytes reads the file of an output.
func (a *Archive) bytes(e entry, o cache.Output) ([]byte, error) {
	path := e.Files[o.Name]
	b, err := fs.ReadFile(a.fsys, path)
	if err != nil {
		return nil, fmt.Errorf("%s, output %q of %s: %w", path, o.Name, e.Record.Node, err)
	}
	if key.Sum(b) != o.Digest || int64(len(b)) != o.Size {
		return nil, fmt.Errorf("%s, output %q of %s: its bytes are not those that were recorded", path, o.Name, e.Record.Node)
	}
	return b, nil
}
