package dataset_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
)

// base is a set as a quick start uses it.
var base = dataset.Spec{Kind: "random", InputLen: 32, OutputLen: 16, Prompts: 20, Warmup: 4,
	VocabLo: 3, VocabHi: 512, Seed: 1, Stream: "chat"}

func with(change func(*dataset.Spec)) dataset.Spec {
	s := base
	change(&s)
	return s
}

func generate(t *testing.T, s dataset.Spec) []dataset.Prompt {
	t.Helper()
	b, err := dataset.Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := dataset.Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDigestIsFrozen pins the bytes: a change here makes every recorded result
// incomparable with every new one, so it needs a new kind, never a new digest.
func TestDigestIsFrozen(t *testing.T) {
	for _, c := range []struct {
		name string
		spec dataset.Spec
		want string
	}{
		{"base", base, "4c7ea90261bb638830f49e707503659d729adaf60d129a16ff8d729239aef2e8"},
		{"other_seed", with(func(s *dataset.Spec) { s.Seed = -2 }), "6ab3f900e9a46e74c466b3ee36e5207651bc7807d509aff7c7b436d8d890adbb"},
		{"real_vocabulary", with(func(s *dataset.Spec) { s.VocabLo, s.VocabHi, s.InputLen = 1000, 151643, 1000 }), "99e56c1f1352993403fe3061e8c42dcad822578778be4201f1f2dc8de2ba8d69"},
	} {
		b, err := dataset.Generate(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != c.want {
			t.Errorf("%s: digest %s, want %s", c.name, got, c.want)
		}
	}
}

func TestShapeIsExact(t *testing.T) {
	p := generate(t, base)
	if len(p) != 24 {
		t.Fatalf("%d prompts, want 4 + 20", len(p))
	}
	for i, q := range p {
		if q.ID != i || q.Warmup != (i < 4) || len(q.Tokens) != 32 || q.OutputLen != 16 || q.Text != "" {
			t.Errorf("prompt %d is %+v", i, q)
		}
		for _, id := range q.Tokens {
			if id < 3 || id >= 512 {
				t.Errorf("prompt %d has id %d outside [3, 512)", i, id)
			}
		}
	}
}

// TestIdsAreUniform draws 200,000 ids from 100 values and compares χ² with its
// distribution for 99 degrees of freedom: mean 99, standard deviation √198; the
// bound is five of them away.
func TestIdsAreUniform(t *testing.T) {
	s := with(func(s *dataset.Spec) { s.VocabLo, s.VocabHi, s.InputLen, s.Prompts, s.Warmup = 50, 150, 2000, 100, 0 })
	counts := map[int]float64{}
	for _, p := range generate(t, s) {
		for _, id := range p.Tokens {
			counts[id]++
		}
	}
	if len(counts) != 100 || counts[50] == 0 || counts[149] == 0 {
		t.Fatalf("%d different ids, ends %v and %v; want all of [50, 150)", len(counts), counts[50], counts[149])
	}
	chi := 0.0
	for _, n := range counts {
		chi += (n - 2000) * (n - 2000) / 2000
	}
	if math.Abs(chi-99) > 5*math.Sqrt(198) {
		t.Errorf("χ² is %.1f, want 99 ± 70", chi)
	}
}

// TestNoPrefixIsShared looks at the first four ids of every prompt of sets that
// one server life could see. By chance, two of 192 prompts agree in four ids of
// 509 with probability 3e-7.
func TestNoPrefixIsShared(t *testing.T) {
	seen := map[string]string{}
	for name, s := range map[string]dataset.Spec{
		"base":   base,
		"stream": with(func(s *dataset.Spec) { s.Stream = "chat/4" }),
		"seed":   with(func(s *dataset.Spec) { s.Seed = 2 }),
		"input":  with(func(s *dataset.Spec) { s.InputLen = 33 }),
		"output": with(func(s *dataset.Spec) { s.OutputLen = 17 }),
		"more":   with(func(s *dataset.Spec) { s.Prompts = 21 }),
		"warmup": with(func(s *dataset.Spec) { s.Warmup = 5 }),
		"vocab":  with(func(s *dataset.Spec) { s.VocabHi = 511 }),
	} {
		for _, p := range generate(t, s) {
			prefix, at := fmt.Sprint(p.Tokens[:4]), fmt.Sprintf("%s/%d", name, p.ID)
			if other, ok := seen[prefix]; ok {
				t.Errorf("%s and %s start alike", other, at)
			}
			seen[prefix] = at
		}
	}
}

// TestEveryFieldIsKeyed walks the Spec as a node's facts; a field without a tag
// panics there.
func TestEveryFieldIsKeyed(t *testing.T) {
	var b key.Builder
	b.Struct(base)
	if n := len(b.Finish().Facts()); n < 9 {
		t.Errorf("%d facts, want one a field", n)
	}
}

func TestBadSpecIsRefused(t *testing.T) {
	for _, c := range []struct {
		want string
		spec dataset.Spec
	}{
		{`kind "sharegpt" is not known`, with(func(s *dataset.Spec) { s.Kind = "sharegpt" })},
		{"input_len is 0", with(func(s *dataset.Spec) { s.InputLen = 0 })},
		{"output_len is -1", with(func(s *dataset.Spec) { s.OutputLen = -1 })},
		{"prompts is 0", with(func(s *dataset.Spec) { s.Prompts = 0 })},
		{"warmup is -1", with(func(s *dataset.Spec) { s.Warmup = -1 })},
		{"vocab_lo is -1", with(func(s *dataset.Spec) { s.VocabLo = -1 })},
		{"at least 2 token ids", with(func(s *dataset.Spec) { s.VocabHi = 4 })},
		{"at least 2 token ids", with(func(s *dataset.Spec) { s.VocabLo, s.VocabHi = 5, 2 })},
		{"token ids end at", with(func(s *dataset.Spec) { s.VocabHi = math.MaxInt })},
		{"more than", with(func(s *dataset.Spec) { s.Prompts, s.InputLen = 1<<20, 1<<20 })},
		{"more than", with(func(s *dataset.Spec) { s.InputLen = math.MaxInt })},
	} {
		if _, err := dataset.Generate(c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.spec, err, c.want)
		}
	}
}

func TestBadFileIsRefused(t *testing.T) {
	good := `{"id":0,"tokens":[1],"output_len":1}` + "\n"
	for _, c := range []struct{ name, file, want string }{
		{"empty", "", "is empty"},
		{"cut", good[:20], "line 1 has no end"},
		{"cut_at_the_newline", good + strings.TrimSpace(good), "line 2 has no end"},
		{"wrong_id", good + good, "line 2: id is 0, not 1"},
		{"unknown_field", `{"id":0,"token":[1],"output_len":1}` + "\n", `unknown field "token"`},
		{"nothing_to_send", `{"id":0,"output_len":1}` + "\n", "neither tokens nor text"},
		{"both", `{"id":0,"tokens":[1],"text":"a","output_len":1}` + "\n", "more than one of tokens"},
		{"no_output", `{"id":0,"tokens":[1]}` + "\n", "output_len is 0"},
		{"negative_id", `{"id":0,"tokens":[-1],"output_len":1}` + "\n", "token id -1"},
		{"two_values", `{"id":0,"tokens":[1],"output_len":1} {}` + "\n", "more than one value"},
		{"late_warmup", good + `{"id":1,"warmup":true,"tokens":[1],"output_len":1}` + "\n", "warm-up prompt after"},
	} {
		if _, err := dataset.Read(strings.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}
