package layers

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Config is what a model's config.json says about its layers. The zero value
// says nothing.
type Config struct {
	Model          string // model_type
	Layers         int    // 0: not said
	HashLayers     int    // last layers that hash
	Types          []string
	Ratios         []int // compress_ratios, one a layer
	DenseFirst     int   // first layers without experts
	Experts        int
	SparseStep     int // every n-th layer has experts; 0 or 1: every one
	SlidingPattern int // every n-th layer has full attention; 0: not said
}

type rawConfig struct {
	rawCounts
	rawExperts
	ModelType string     `json:"model_type"`
	Types     []string   `json:"layer_types"`
	Ratios    []int      `json:"compress_ratios"`
	Hash      int        `json:"num_hash_layers"`
	Sliding   int        `json:"sliding_window_pattern"`
	Text      *rawConfig `json:"text_config"`
}

type rawCounts struct {
	Hidden int `json:"num_hidden_layers"`
	Double int `json:"num_layers"` // of a diffusion model
	Single int `json:"num_single_layers"`
	NextN  int `json:"num_nextn_predict_layers"`
}

// rawExperts has the three names that models give the number of experts.
type rawExperts struct {
	DenseFirst int `json:"first_k_dense_replace"`
	Experts    int `json:"num_experts"`
	Local      int `json:"num_local_experts"`
	Routed     int `json:"n_routed_experts"`
	SparseStep int `json:"decoder_sparse_step"`
}

// ParseConfig reads a Hugging Face config.json; of a multimodal model its
// text_config counts.
func ParseConfig(b []byte) (Config, error) {
	var raw rawConfig
	if err := json.Unmarshal(b, &raw); err != nil {
		return Config{}, fmt.Errorf("reading config.json: %w", err)
	}
	if raw.Text != nil {
		if raw.Text.ModelType == "" {
			raw.Text.ModelType = raw.ModelType
		}
		raw = *raw.Text
	}
	c := Config{
		Model: raw.ModelType, Layers: raw.Hidden, HashLayers: raw.Hash, Types: raw.Types, Ratios: raw.Ratios,
		DenseFirst: raw.DenseFirst, Experts: max(raw.Experts, raw.Local, raw.Routed), SparseStep: raw.SparseStep, SlidingPattern: raw.Sliding,
	}
	if c.Layers == 0 {
		c.Layers = raw.Double + raw.Single
		for range raw.Double {
			c.Types = append(c.Types, "double")
		}
		for range raw.Single {
			c.Types = append(c.Types, "single")
		}
	}
	if c.Layers <= 0 {
		return Config{}, fmt.Errorf("config.json has no number of layers (num_hidden_layers, or num_layers of a diffusion model)")
	}
	if n := len(c.Ratios); n > 0 && n != c.Layers {
		if n != c.Layers+raw.NextN {
			return Config{}, fmt.Errorf("config.json has %d compress_ratios for %d layers", n, c.Layers)
		}
		c.Ratios = c.Ratios[:c.Layers]
	}
	if n := len(c.Types); n > 0 && n != c.Layers {
		return Config{}, fmt.Errorf("config.json has %d layer_types for %d layers", n, c.Layers)
	}
	return c, nil
}

// TypeOf is the type of layer i by configuration, "" when it says nothing.
func (c Config) TypeOf(i int) string {
	if c.Layers == 0 || i >= c.Layers {
		return ""
	}
	out := ""
	add := func(s string) {
		if out != "" {
			out += ", "
		}
		out += s
	}
	switch {
	case len(c.Types) > 0:
		add(c.Types[i])
	case c.SlidingPattern > 1 && (i+1)%c.SlidingPattern == 0:
		add("full_attention")
	case c.SlidingPattern > 1:
		add("sliding_attention")
	}
	if len(c.Ratios) > 0 {
		add("compress ratio " + strconv.Itoa(c.Ratios[i]))
	}
	if c.HashLayers > 0 && i >= c.Layers-c.HashLayers {
		add("hash")
	}
	if c.Experts > 0 {
		if i < c.DenseFirst || c.SparseStep > 1 && (i+1)%c.SparseStep != 0 {
			add("dense")
		} else {
			add("MoE")
		}
	}
	return out
}
