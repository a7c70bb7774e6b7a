package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Config is a model folder's config.json. All numbers are counts.
type Config struct {
	VocabSize    int `json:"vocab_size"`
	Hidden       int `json:"hidden_size"`
	Layers       int `json:"num_hidden_layers"`
	Heads        int `json:"num_attention_heads"`
	KVHeads      int `json:"num_key_value_heads"`
	Intermediate int `json:"intermediate_size"`
	// MaxPositions is the longest sequence, prompt and answer together.
	MaxPositions int `json:"max_position_embeddings"`
	// Seed decides every weight; absent is an error, since there is no file of
	// weights to fall back on.
	Seed *uint64 `json:"seed"`
	// Architectures and ModelType are names for people and other tools; a type
	// other than "tinyserve" is refused: its weights would not be the real ones.
	Architectures []string `json:"architectures,omitempty"`
	ModelType     string   `json:"model_type,omitempty"`
}

// maxParameters bounds what a config can ask for: 256 MiB of weights.
const maxParameters = 64 << 20

// ReadConfig reads and checks DIR/config.json. The error names all that is
// wrong with it.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the model's config: %w", err)
	}
	var c Config
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields() // a key that is ignored is a setting that is not in force
	if err := d.Decode(&c); err != nil {
		return Config{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("checking %s: %w", path, err)
	}
	return c, nil
}

func (c Config) headDim() int { return c.Hidden / c.Heads }
func (c Config) kvDim() int   { return c.headDim() * c.KVHeads }

// Parameters is the number of weights, norms and biases included.
func (c Config) Parameters() int {
	layer := c.Hidden*(2*c.Hidden+2*c.kvDim()) + 3*c.Hidden*c.Intermediate + 2*c.Hidden
	return c.Layers*layer + 2*c.VocabSize*c.Hidden + c.Hidden + c.VocabSize
}

func (c Config) check() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	for _, n := range []struct {
		key      string
		v, limit int
	}{
		{"hidden_size", c.Hidden, 1 << 14},
		{"num_hidden_layers", c.Layers, 1 << 10},
		{"num_attention_heads", c.Heads, 1 << 10},
		{"num_key_value_heads", c.KVHeads, 1 << 10},
		{"intermediate_size", c.Intermediate, 1 << 16},
		{"max_position_embeddings", c.MaxPositions, 1 << 17},
	} {
		if n.v < 1 || n.v > n.limit {
			bad("%s must be between 1 and %d, not %d", n.key, n.limit, n.v)
		}
	}
	if c.VocabSize != vocabSize {
		bad("vocab_size must be %d, the size of the built-in vocabulary, not %d", vocabSize, c.VocabSize)
	}
	if c.Seed == nil {
		bad("seed is missing; it decides the weights, any whole number will do")
	}
	if c.ModelType != "" && c.ModelType != "tinyserve" {
		bad("model_type is %q; tinyserve makes its own random weights and reads only its own models", c.ModelType)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if c.Hidden%c.Heads != 0 || c.Heads%c.KVHeads != 0 {
		bad("hidden_size (%d) must be a multiple of num_attention_heads (%d), and that of num_key_value_heads (%d)", c.Hidden, c.Heads, c.KVHeads)
	} else if d := c.headDim(); d < tile || d&(d-1) != 0 {
		bad("hidden_size / num_attention_heads must be a power of two from %d up, not %d", tile, d)
	}
	if c.Intermediate%tile != 0 {
		bad("intermediate_size must be a multiple of %d, not %d", tile, c.Intermediate)
	}
	if n := c.Parameters(); n > maxParameters {
		bad("the model would have %d parameters; at most %d are allowed", n, maxParameters)
	}
	return errors.Join(errs...)
}
