package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	Datasets  map[string]key.Digest        `json:"datasets,omitempty"`
	Graded    key.Digest                   `json:"graded"`
	Binding   string                       `json:"binding"` // as a manifest's text
	Recorded  []cache.Observed             `json:"recorded"`
	Hardware  result.Hardware              `json:"hardware"`
	Cards     []string                     `json:"cards,omitempty"`
}

const keptVersion = 3

// Remember writes down the facts that were read, so that a plan that does not
// want to read them again need not (Recall). The file is private and replaced
// whole. It only saves time; nothing is keyed by it that was not read.
//
// The digest is that of the facts, also where they could not be written down.
func Remember(path string, of key.Digest, f campaign.Facts) (key.Digest, error) {
	var binding key.Builder
	binding.Add(f.Env.Binding...)
	b, err := json.Marshal(kept{keptVersion, of, f.Software, f.Weights, f.Tokenizer, f.Datasets, f.Graded, binding.Finish().Text(), f.Env.Recorded, f.Hardware, f.Cards})
	if err != nil {
		panic("prepare: facts have no JSON: " + err.Error())
	}
	if old, err := os.ReadFile(path); err == nil && string(old) == string(b) {
		return key.Sum(b), nil
	}
	if err := replace(path, b); err != nil {
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
// and this tool. A file that makes no sense is as good as none.
func Recall(path string, of key.Digest, self string) (campaign.Facts, key.Digest, bool, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return campaign.Facts{}, key.Digest{}, false, nil
	}
	if err != nil {
		return campaign.Facts{}, key.Digest{}, false, fmt.Errorf("recalling facts: %w", err)
	}
	var k kept
	if json.Unmarshal(b, &k) != nil || k.V != keptVersion || k.For != of {
		return campaign.Facts{}, key.Digest{}, false, nil
	}
	binding, err := key.ParseManifest(k.Binding)
	if err != nil {
		return campaign.Facts{}, key.Digest{}, false, nil
	}
	f := campaign.Facts{Software: k.Software, Weights: k.Weights, Tokenizer: k.Tokenizer, Datasets: k.Datasets, Graded: k.Graded, Hardware: k.Hardware, Cards: k.Cards, Self: self}
	f.Env.Binding, f.Env.Recorded = binding.Facts(), k.Recorded
	return f, key.Sum(b), true, nil
}
