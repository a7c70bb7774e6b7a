package campaign

import (
	"context"
	"maps"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache/samples"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/weights"
)

// WeightsAddr is the address of the node that has a pinned revision on this host
// before the first server starts. A model with a path has none.
const WeightsAddr = "weights.model"

// WeightsSpec is a pinned revision and where it lies here.
type WeightsSpec struct {
	Model    string          `key:"model"`
	Revision string          `key:"revision"`
	Folder   string          `key:"-"`
	Missing  string          `key:"-"` // why the folder is not whole; "" if it is
	Options  weights.Options `key:"-"`
}

// weightsKind is pure: a revision is the same everywhere. That it lies on this
// host is judged at plan time, for a record may come from another.
var weightsKind = &compile.Kind{
	Name: "weights", Version: 1, Purity: compile.Pure, Outputs: []string{"list"},
	Func: fetchWeights, Policy: policy,
	Accept: func(spec any) samples.Rule { return samples.Rule{Wanting: spec.(WeightsSpec).Missing} },
}

// fetched reports whether the model is a revision that is fetched here.
func fetched(c *lang.Campaign) bool { return c.Model.Path == "" && c.Model.Revision != "" }

// Revision is where a pinned revision of the campaign's model lies, and why it is
// not whole. The zero value is a model with a path.
type Revision struct{ Folder, Missing string }

func weightsDecl(c *lang.Campaign, f Facts) []compile.Decl {
	if !fetched(c) {
		return nil
	}
	return []compile.Decl{{
		Addr: WeightsAddr, Kind: weightsKind, Block: "model",
		Spec: WeightsSpec{Model: c.Model.ID, Revision: c.Model.Revision, Folder: f.Revision.Folder, Missing: f.Revision.Missing, Options: f.Hub},
		// A model of a terabyte at 100 MB/s is three hours.
		Timeout: 12 * time.Hour,
	}}
}

func fetchWeights(ctx context.Context, j compile.Job) compile.Result {
	s := j.Spec.(WeightsSpec)
	l, err := weights.Fetch(ctx, s.Folder, s.Model, s.Revision, s.Options)
	if err != nil {
		return compile.Result{Outcome: failure(result.NoWeights, err.Error())}
	}
	out := ok("list", nil)
	out.Outputs[0].Bytes = l.Portable()
	return out
}

// offline are the variables that keep a server from the hub, where all that it
// needs lies on this host: what is measured is what is pinned, and no server
// waits for a network while it holds GPUs. None where a tokenizer is only named.
func offline(c *lang.Campaign) map[string]string {
	local := c.Model.Path != "" || fetched(c)
	if t := c.Model.Tokenizer; !local || t != "" && t != c.Model.ID && !filepath.IsAbs(t) {
		return nil
	}
	return map[string]string{"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
}

// withDefaults are declared variables, and others where they are not declared.
func withDefaults(declared, others map[string]string) map[string]string {
	out := maps.Clone(others)
	if out == nil {
		return declared
	}
	maps.Copy(out, declared)
	return out
}
