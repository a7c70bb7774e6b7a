package solo

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
)

// kind is one row of the table of datasets.
type kind struct {
	name    string
	meaning string
	file    bool // it needs a file
	random  bool // its tokens carry no meaning
	make    func(o Options, r io.Reader, count dataset.Count) ([]dataset.Prompt, error)
}

// kinds is the table, in display order.
var kinds = []kind{
	{"random", "token ids, or a text of as many tokens where the API takes no ids", false, true, random},
	{"random-text", "text of random words, exactly so many tokens by the server's count", false, true, text},
	{"prefix", "token ids in groups that share their first --prefix-len tokens", false, true, func(o Options, _ io.Reader, _ dataset.Count) ([]dataset.Prompt, error) {
		s := o.Set
		return dataset.Prefixes(s.Ids, s.Groups, s.Prefix, s.In, s.Out, s.Prompts)
	}},
	{"sessions", "conversations of token ids with --turns and --think-time", false, true, func(o Options, _ io.Reader, _ dataset.Count) ([]dataset.Prompt, error) {
		s := o.Set
		return dataset.Sessions(s.Ids, max(1, s.Prompts/max(1, s.Turns)), s.Turns, s.In, s.Out, s.Think)
	}},
	{"sharegpt", "first questions of recorded conversations", true, false, func(o Options, r io.Reader, c dataset.Count) ([]dataset.Prompt, error) {
		return dataset.ShareGPT(r, o.Set.Prompts, o.Set.Out, c)
	}},
	{"multi-turn", "recorded conversations, turn by turn", true, false, func(o Options, r io.Reader, _ dataset.Count) ([]dataset.Prompt, error) {
		return dataset.Talks(r, o.Set.Prompts, o.Set.Out, o.Set.Think)
	}},
	{"custom", "JSON lines with prompt and output_len", true, false, func(o Options, r io.Reader, _ dataset.Count) ([]dataset.Prompt, error) {
		return dataset.Custom(r, o.Set.Prompts, o.Set.Out)
	}},
	{"mooncake", "a trace of lengths, times and shared blocks", true, true, func(o Options, r io.Reader, _ dataset.Count) ([]dataset.Prompt, error) {
		return dataset.Mooncake(o.Set.Ids, r, o.Set.Prompts)
	}},
}

// Kinds lists the datasets with what they are, for help texts.
func Kinds() (out [][2]string) {
	for _, k := range kinds {
		out = append(out, [2]string{k.name, k.meaning})
	}
	return out
}

func (s Set) kind() (kind, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == s.Name })
	if i < 0 {
		return kind{}, fmt.Errorf("dataset %q is not known; write one of %s", s.Name, strings.Join(names(), ", "))
	}
	return kinds[i], nil
}

func names() (out []string) {
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

func (s Set) random() bool {
	k, err := s.kind()
	return err == nil && k.random
}

// Check says what is wrong with a set before anything is started.
func (s Set) Check() error {
	k, err := s.kind()
	switch {
	case err != nil:
		return err
	case k.file != (s.Path != ""):
		return fmt.Errorf("dataset %q and path %q: a file belongs to sharegpt, multi-turn, custom and mooncake, and is needed there", s.Name, s.Path)
	case !k.file && (s.Prompts < 1 || s.In < 1 || s.Out < 1):
		return fmt.Errorf("%d prompts of %d tokens in and %d out; each is at least 1", s.Prompts, s.In, s.Out)
	case !(s.Spread >= 0 && s.Spread < 1):
		return fmt.Errorf("the spread of lengths is %v; write a share from 0 to below 1", s.Spread)
	case len(s.Mix) > 0 && s.Name != "random" && s.Name != "random-text":
		return fmt.Errorf("dataset %q has lengths of its own; a mixture belongs to random and random-text", s.Name)
	}
	shapes, err := dataset.Shapes(s.In, s.Out, s.Spread, s.Mix)
	if err != nil || len(shapes) == 1 {
		return err
	}
	for _, x := range shapes {
		if x.Weight*float64(s.Prompts) < 1-1e-9 {
			return fmt.Errorf("a share of %.6g of %d prompts, of %d tokens in and %d out, is less than one; write at least %.0f prompts", x.Weight, s.Prompts, x.In[0], x.Out[0], math.Ceil(1/x.Weight-1e-9))
		}
	}
	return nil
}

// prompts makes the set: measured prompts and, before them, warm-up ones of the
// same shape, all unlike those of any other run.
func (o Options) prompts(count dataset.Count) ([]dataset.Prompt, error) {
	run := o.name()
	if o.Set.Name == "random-text" || o.Set.Name == "random" && o.API == bench.Chat {
		o.Set.Ids.Seed ^= int64(fold(run)) // its texts are made unlike others: a mark in front would change counts
	}
	out, err := o.made(count)
	if err != nil {
		return nil, err
	}
	extras := dataset.Extras{Adapters: o.Set.Adapters, Cancel: o.Set.Cancel[0], CancelAfter: o.Set.Cancel[1]}
	return extras.Finish(o.Set.Ids, run, o.Load.Warmup, out)
}

// made makes the measured prompts, without a nonce.
func (o Options) made(count dataset.Count) ([]dataset.Prompt, error) {
	k, err := o.Set.kind()
	if err != nil {
		return nil, err
	}
	if !k.file {
		return k.make(o, nil, count)
	}
	f, err := os.Open(o.Set.Path)
	if err != nil {
		return nil, fmt.Errorf("opening dataset: %w", err)
	}
	defer f.Close()
	return k.make(o, f, count)
}

func random(o Options, r io.Reader, count dataset.Count) ([]dataset.Prompt, error) {
	if o.API == bench.Chat {
		return text(o, r, count)
	}
	return mixture(o.Set)
}

func mixture(s Set) ([]dataset.Prompt, error) {
	shapes, err := dataset.Shapes(s.In, s.Out, s.Spread, s.Mix)
	if err != nil {
		return nil, err
	}
	return dataset.Mixture(s.Ids, shapes, s.Prompts)
}

func text(o Options, _ io.Reader, count dataset.Count) ([]dataset.Prompt, error) {
	shapes, err := mixture(o.Set)
	if err != nil {
		return nil, err
	}
	for i := range shapes {
		n := len(shapes[i].Tokens)
		t, err := dataset.RandomText(o.Set.Ids, fmt.Sprint(i), n, count)
		if err != nil {
			return nil, err
		}
		shapes[i].Tokens, shapes[i].Text, shapes[i].InputLen = nil, t, n
	}
	return shapes, nil
}

// fold makes a number of a name (FNV-1a).
func fold(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(s) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
