package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
)

// findings are what was found in images: taking a program out of an image costs
// seconds, and the same image always has the same one. The file only saves
// time; one that makes no sense is as good as none.
type findings struct {
	path    string
	changed bool
	known   map[string]finding
}

type finding struct {
	Program string     `json:"program"`
	Digest  key.Digest `json:"digest"`
}

func openFindings(path string) (*findings, error) {
	f := &findings{path: path, known: map[string]finding{}}
	if path == "" {
		return f, nil
	}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("reading what is known of images: %w", err)
	}
	if json.Unmarshal(b, &f.known) != nil || f.known == nil {
		f.known = map[string]finding{}
	}
	return f, nil
}

// question is what was looked for in an image.
func question(image key.Digest, fw lang.Framework) string {
	b, err := json.Marshal([]string{image.String(), programName(fw), fw.Program, fw.Tree})
	if err != nil {
		panic("prepare: texts have no JSON: " + err.Error())
	}
	return string(b)
}

// program is the program of a framework as it was found before; false where it
// was not.
func (f *findings) program(image key.Digest, fw lang.Framework) (string, key.Digest, bool) {
	found, ok := f.known[question(image, fw)]
	return found.Program, found.Digest, ok
}

func (f *findings) keep(image key.Digest, fw lang.Framework, program string, d key.Digest) {
	f.known[question(image, fw)], f.changed = finding{program, d}, true
}

// save replaces the file whole.
func (f *findings) save() error {
	if f.path == "" || !f.changed {
		return nil
	}
	b, err := json.Marshal(f.known)
	if err != nil {
		return fmt.Errorf("keeping what is known of images: %w", err)
	}
	return replace(f.path, b)
}
