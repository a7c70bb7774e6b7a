package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// kept is the form in which facts are remembered. For says what they are the
// facts of: campaign, variables and tool.
type kept struct {
	V         int                          `json:"v"`
	For       key.Digest                   `json:"for"`
	Software  map[string]campaign.Software `json:"software"`
	Weights   key.Digest                   `json:"weights"`
	Tokenizer key.Digest                   `json:"tokenizer"`
	Datasets  map[path]key.Digest          `json:"datasets,omitempty"`
	Graded    key.Digest                   `json:"graded"`
	Binding   string                       `json:"binding"` // as a manifest's text
	Recorded  []cache.Observed             `json:"recorded"`
	Hardware  result.Hardware              `json:"hardware"`
	Cards     []string                     `json:"cards,omitempty"`
}

const keptVersion = 4

// path is a path or a name of a file, which need not be UTF-8: in JSON it is
// quoted twice. It is no string because JSON takes keys of that kind as they are.
type path struct{ string }

// MarshalText is the path in quotes.
func (p path) MarshalText() ([]byte, error) { return strconv.AppendQuoteToASCII(nil, p.string), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *path) UnmarshalText(b []byte) (err error) {
	p.string, err = strconv.Unquote(string(b))
	return err
}

// byPath are digests by path, as they are kept.
func byPath(m map[string]key.Digest) map[path]key.Digest {
	out := map[path]key.Digest{}
	for p, d := range m {
		out[path{p}] = d
	}
	return out
}

// readKept reads a file that only saves time; nil where there is none. Anything
// but a regular file is an error, before it can be waited for.
func readKept(file string) ([]byte, error) {
	st, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !st.Mode().IsRegular():
		err = fmt.Errorf("reading %s: it is no regular file", file)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// Remember writes down the facts that were read, so that a plan that does not
// want to read them again need not (Recall). The file is private and replaced
// whole. It only saves time; nothing is keyed by it that was not read.
//
// The digest is that of the facts, also where they could not be written down.
func Remember(file string, of key.Digest, f campaign.Facts) (key.Digest, error) {
	var binding key.Builder
	binding.Add(f.Env.Binding...)
	b, err := json.Marshal(kept{keptVersion, of, f.Software, f.Weights, f.Tokenizer, byPath(f.Datasets), f.Graded, binding.Finish().Text(), f.Env.Recorded, f.Hardware, f.Cards})
	if err != nil {
		panic("prepare: facts have no JSON: " + err.Error())
	}
	if old, err := readKept(file); err == nil && string(old) == string(b) {
		return key.Sum(b), nil
	}
	if err := replace(file, b); err != nil {
		return key.Sum(b), fmt.Errorf("remembering facts: %w", err)
	}
	return key.Sum(b), nil
}

// replace writes a private file whole, with the folder that holds it.
func replace(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// Recall returns the facts of the last time with their digest, as Remember gave
// it; false when none are remembered for exactly this campaign, these variables
// and this tool. A file that makes no sense is as good as none, and so is one
// that cannot be read, which is an error all the same.
func Recall(file string, of key.Digest, self string) (campaign.Facts, key.Digest, bool, error) {
	b, err := readKept(file)
	if b == nil {
		return campaign.Facts{}, key.Digest{}, false, err
	}
	var k kept
	if json.Unmarshal(b, &k) != nil || k.V != keptVersion || k.For != of {
		return campaign.Facts{}, key.Digest{}, false, nil
	}
	binding, err := key.ParseManifest(k.Binding)
	if err != nil {
		return campaign.Facts{}, key.Digest{}, false, nil
	}
	f := campaign.Facts{Software: k.Software, Weights: k.Weights, Tokenizer: k.Tokenizer, Graded: k.Graded, Hardware: k.Hardware, Cards: k.Cards, Self: self}
	for p, d := range k.Datasets {
		if f.Datasets == nil {
			f.Datasets = map[string]key.Digest{}
		}
		f.Datasets[p.string] = d
	}
	f.Env.Binding, f.Env.Recorded = binding.Facts(), k.Recorded
	return f, key.Sum(b), true, nil
}
