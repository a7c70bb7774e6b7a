package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
)

// Origin is what an outline is made from, but for the store's answers.
type Origin struct {
	Of       key.Digest        // campaign, variables and tool
	Facts    key.Digest        // of the host, as Remember or Recall gave them
	Revision campaign.Revision // of the model
}

// Compiled is the compiled form of a campaign: its outline as a file of the
// store. It holds only if everything that it was made from is what it was; it
// saves time and is never what runs.
type Compiled struct {
	about  about
	frozen compile.Frozen
}

// about says what a compiled form was made from, and what is no part of its
// graph.
type about struct {
	Name     string           `json:"name"`
	Rounds   []string         `json:"rounds,omitempty"`
	Files    []string         `json:"files"`            // of the campaign, in the order of reading
	Sought   []string         `json:"sought,omitempty"` // paths that would have been read too
	Model    string           `json:"model,omitempty"`  // of a pinned revision of a hub
	Revision string           `json:"revision,omitempty"`
	Made     key.Digest       `json:"made"`             // of the whole origin, with the answers
	Loaded   lang.Diagnostics `json:"loaded,omitempty"` // warnings of reading the campaign
	Compiled lang.Diagnostics `json:"compiled,omitempty"`
}

// OpenCompiled reads the file at path; nil where there is none, or one that
// makes no sense. One that cannot be read is an error.
func OpenCompiled(path string) (*Compiled, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the compiled campaign: %w", err)
	}
	frozen, err := compile.OpenFrozen(b)
	if err != nil {
		return nil, nil
	}
	k := &Compiled{frozen: frozen}
	if json.Unmarshal(frozen.About, &k.about) != nil {
		return nil, nil
	}
	return k, nil
}

// Files fingerprints the campaign's files by their stats, by name; false where
// other files would be read than were.
func (k *Compiled) Files(dir string, files *key.Files) (map[string]key.Digest, bool) {
	// What else was read comes after the sources. One that is gone has no
	// fingerprint.
	sources, err := lang.Sources(dir)
	if err != nil || len(sources) > len(k.about.Files) || !slices.Equal(sources, k.about.Files[:len(sources)]) {
		return nil, false
	}
	for _, path := range k.about.Sought {
		if _, err := os.Lstat(path); err == nil {
			return nil, false
		}
	}
	found := map[string]key.Digest{}
	for _, name := range k.about.Files {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, name)
		}
		if found[name], err = files.File(path); err != nil {
			return nil, false
		}
	}
	return found, true
}

// Weights is where a store has the model's pinned revision, as Weights says of
// the campaign itself.
func (k *Compiled) Weights(store string) (campaign.Revision, error) {
	return revision(store, k.about.Model, k.about.Revision)
}

// Loaded are the warnings of reading the campaign.
func (k *Compiled) Loaded() lang.Diagnostics { return k.about.Loaded }

// Outline is the outline if it would be made again just so: from this origin and
// what the store answers now. The diagnostics are the warnings of compiling it.
func (k *Compiled) Outline(from Origin, r cache.Reader, now time.Time) (Outline, lang.Diagnostics, bool) {
	g, err := k.frozen.Thaw(campaign.Kinds())
	if err != nil {
		return Outline{}, nil, false
	}
	o := Outline{Name: k.about.Name, Graph: g, Rounds: k.about.Rounds, answers: answersOf(g, r, now)}
	if made(from, o.answers) != k.about.Made {
		return Outline{}, nil, false
	}
	o.Unasked = unasked(g, o.answers)
	return o, k.about.Compiled, true
}

// made names an origin with its answers.
func made(from Origin, known answers) key.Digest {
	digests := make(map[string]key.Digest, len(known))
	for addr, a := range known {
		digests[addr] = a.digest
	}
	b, err := json.Marshal(struct {
		Origin
		Answers map[string]key.Digest
	}{from, digests})
	if err != nil {
		panic("prepare: digests have no JSON: " + err.Error())
	}
	return key.Sum(b)
}

// Keep writes down what From made of an origin, with the warnings of reading and
// compiling the campaign. The file is private and replaced whole.
func (p *Prepared) Keep(path string, from Origin, loaded, compiled lang.Diagnostics) error {
	c := p.Campaign
	a := about{Name: p.Name, Rounds: p.Rounds, Sought: c.Sought, Made: made(from, p.answers), Loaded: loaded, Compiled: compiled}
	if pinned(c) {
		a.Model, a.Revision = c.Model.ID, c.Model.Revision
	}
	for _, f := range c.Files {
		a.Files = append(a.Files, f.Name)
	}
	b, err := json.Marshal(a)
	if err == nil {
		err = replace(path, compile.Freeze(p.Graph, b))
	}
	if err != nil {
		return fmt.Errorf("keeping the compiled campaign: %w", err)
	}
	return nil
}
