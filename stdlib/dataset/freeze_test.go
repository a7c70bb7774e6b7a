package dataset

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func freeze(t *testing.T, s Spec, file string) []Prompt {
	t.Helper()
	var b []byte
	var err error
	if file == "" {
		b, err = Freeze(s, nil)
	} else {
		s.Form.File = "sha256:x"
		b, err = Freeze(s, strings.NewReader(file))
	}
	if err != nil {
		t.Fatalf("%s: %v", s.Kind, err)
	}
	out, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", s.Kind, err)
	}
	return out
}

// TestFreezeMakesEveryKind: numbers, lengths and warm-up of each kind, and two
// cells of one scenario share no prompt.
func TestFreezeMakesEveryKind(t *testing.T) {
	talk := `[{"conversations":[{"from":"human","value":"one two"},{"from":"gpt","value":"three"},{"from":"human","value":"four"},{"from":"gpt","value":"five"}]}]`
	for _, tc := range []struct {
		kind     string
		form     Form
		file     string
		prompts  int
		lengths  []int // of tokens, in order; nil is text
		measured int
	}{
		{"random", Form{}, "", 4, []int{24, 24, 24, 24}, 4},
		{"random", Form{Chat: true}, "", 4, nil, 4},
		{"prefix", Form{Groups: 2, Shared: 16}, "", 4, []int{24, 24, 24, 24}, 4},
		{"sessions", Form{Turns: 2}, "", 5, []int{24, 54, 24, 54}, 4},
		{"sharegpt", Form{}, talk, 4, nil, 1},
		{"multi-turn", Form{Chat: true}, talk, 4, nil, 2},
		{"jsonl", Form{}, `{"prompt":[1,2,3,4,5,6,7,8,9],"at_s":0.5}` + "\n" + `{"prompt":"hi","output_len":3,"body":{"guided_json":{}}}`, 4, nil, 2},
		{"mooncake", Form{}, `{"timestamp":1500,"input_length":600,"output_length":7,"hash_ids":[1,2]}`, 4, []int{600}, 1},
	} {
		s := Spec{Kind: tc.kind, InputLen: 24, OutputLen: 6, Prompts: tc.prompts, Warmup: 1, VocabLo: 10, VocabHi: 500, Seed: 1, Stream: "c1", Form: tc.form}
		all := freeze(t, s, tc.file)
		if len(all) != 1+tc.measured || !all[0].Warmup {
			t.Errorf("%s: %d prompts, want 1 for the warm-up and %d", tc.kind, len(all), tc.measured)
			continue
		}
		for i, n := range tc.lengths {
			if got := len(all[i+1].Tokens); got != n {
				t.Errorf("%s: prompt %d has %d tokens, want %d", tc.kind, i, got, n)
			}
		}
		if tc.form.Chat && tc.kind == "random" && len(strings.Fields(all[2].Text)) < 24 {
			t.Errorf("random words: %q", all[2].Text)
		}
		s.Stream = "c2"
		other := freeze(t, s, tc.file)
		for i := range all {
			a, b := all[i], other[i]
			if len(a.Tokens) > 0 && slices.Equal(a.Tokens[:8], b.Tokens[:8]) || a.Text != "" && strings.Split(a.Text, " ")[0] == strings.Split(b.Text, " ")[0] ||
				len(a.Messages) > 0 && a.Messages[0].Content == b.Messages[0].Content {
				t.Errorf("%s: prompt %d begins alike in two cells", tc.kind, i)
			}
		}
	}
}

// TestFreezeKeepsWhatThePromptsHave: shared prefixes stay shared, lengths stay
// within the spread, a tenth is cancelled, adapters take turns.
func TestFreezeKeepsWhatThePromptsHave(t *testing.T) {
	s := Spec{Kind: "prefix", InputLen: 24, OutputLen: 6, Prompts: 4, VocabLo: 10, VocabHi: 500, Form: Form{Groups: 2, Shared: 16}}
	p := freeze(t, s, "")
	if !slices.Equal(p[0].Tokens[:16], p[2].Tokens[:16]) || slices.Equal(p[0].Tokens[:16], p[1].Tokens[:16]) || slices.Equal(p[0].Tokens, p[2].Tokens) {
		t.Error("the groups do not share what they should")
	}
	s = Spec{Kind: "random", InputLen: 100, OutputLen: 20, Prompts: 50, VocabLo: 10, VocabHi: 500,
		Form: Form{Spread: .5, Extras: Extras{Adapters: []string{"a", "b"}, Cancel: .1, CancelAfter: 2}}}
	low, high, left := 1000, 0, 0
	for i, p := range freeze(t, s, "") {
		low, high = min(low, len(p.Tokens)), max(high, len(p.Tokens))
		if p.Cancel == 2 {
			left++
		}
		if p.Adapter != []string{"a", "b"}[i%2] {
			t.Errorf("prompt %d asks for %q", i, p.Adapter)
		}
	}
	if low < 50 || high > 150 || high-low < 50 || left != 5 {
		t.Errorf("lengths from %d to %d, %d cancelled", low, high, left)
	}
}

func TestFreezeRefuses(t *testing.T) {
	for want, s := range map[string]Spec{
		"not known":          {Kind: "nope"},
		"half of it":         {Kind: "jsonl", Form: Form{File: "sha256:x"}},
		"each is at least 1": {Kind: "prefix", InputLen: 4, OutputLen: 1, Prompts: 1, VocabHi: 9, Form: Form{Shared: 4}},
		"must hold at least": {Kind: "sessions", InputLen: 4, OutputLen: 1, Prompts: 1, Form: Form{Turns: 1}},
		"cancelling a share": {Kind: "random", InputLen: 4, OutputLen: 1, Prompts: 1, VocabHi: 9, Form: Form{Extras: Extras{Cancel: .5}}},
	} {
		if _, err := Freeze(s, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", s, err, want)
		}
	}
	if _, err := Freeze(Spec{Kind: "jsonl", OutputLen: 1, Form: Form{File: "x"}}, strings.NewReader(`{"prompt":[1,2]}`)); err == nil || !strings.Contains(err.Error(), "token ids") {
		t.Errorf("ids without a vocabulary: error %v", err)
	}
}
