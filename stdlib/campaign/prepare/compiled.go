package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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
	Run      Run              `json:"run"`
	Rounds   []string         `json:"rounds,omitempty"`
	Files    []path           `json:"files"`            // of the campaign, in the order of reading
	Sought   []path           `json:"sought,omitempty"` // that would have been read too
	Model    string           `json:"model,omitempty"`  // of a pinned revision of a hub
	Revision string           `json:"revision,omitempty"`
	Origin   key.Digest       `json:"origin"`
	Answers  key.Digest       `json:"answers"`
	Loaded   lang.Diagnostics `json:"loaded,omitempty"` // warnings of reading the campaign
	Compiled lang.Diagnostics `json:"compiled,omitempty"`
}

// OpenCompiled reads a file; nil where there is none, or one that makes no sense.
// An error is one that could not be read: it is as good as none.
func OpenCompiled(file string) (*Compiled, error) {
	b, err := readKept(file)
	if b == nil {
		return nil, err
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
	if err != nil || len(sources) > len(k.about.Files) {
		return nil, false
	}
	for i, name := range sources {
		if k.about.Files[i].string != name {
			return nil, false
		}
	}
	for _, p := range k.about.Sought {
		// What cannot be looked at may be there.
		if _, err := os.Stat(p.string); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, false
		}
	}
	found := map[string]key.Digest{}
	for _, p := range k.about.Files {
		at := p.string
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		if found[p.string], err = files.File(at); err != nil {
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
	if from.digest() != k.about.Origin {
		return Outline{}, nil, false // of another campaign the store is not even asked
	}
	g, err := k.frozen.Thaw(campaign.Kinds())
	if err != nil {
		return Outline{}, nil, false
	}
	o := Outline{Name: k.about.Name, Run: k.about.Run, Graph: g, Rounds: k.about.Rounds, answers: answersOf(g, r, now)}
	if o.answers.digest() != k.about.Answers {
		return Outline{}, nil, false
	}
	o.Unasked = unasked(g, o.answers)
	return o, k.about.Compiled, true
}

// digest names the origin.
func (o Origin) digest() key.Digest {
	var b key.Builder
	b.Digest("of", "", o.Of)
	b.Digest("facts", "", o.Facts)
	b.Text("folder", "", o.Revision.Folder)
	b.Text("missing", "", o.Revision.Missing)
	return key.Digest(b.Finish().Key())
}

// Rounds are the campaign's blocks that ask for rounds.
func (k *Compiled) Rounds() []string { return k.about.Rounds }

// Keep writes down what From made of an origin, with the warnings of reading and
// compiling the campaign. The file is private and replaced whole.
func (p *Prepared) Keep(file string, from Origin, loaded, compiled lang.Diagnostics) error {
	c := p.Campaign
	a := about{Name: p.Name, Run: p.Run, Rounds: p.Rounds, Origin: from.digest(), Answers: p.answers.digest(), Loaded: loaded, Compiled: compiled}
	if pinned(c) {
		a.Model, a.Revision = c.Model.ID, c.Model.Revision
	}
	for _, f := range c.Files {
		a.Files = append(a.Files, path{f.Name})
	}
	for _, s := range c.Sought {
		a.Sought = append(a.Sought, path{s})
	}
	b, err := json.Marshal(a)
	if err == nil {
		err = replace(file, compile.Freeze(p.Graph, b))
	}
	if err != nil {
		return fmt.Errorf("keeping the compiled campaign: %w", err)
	}
	return nil
}
