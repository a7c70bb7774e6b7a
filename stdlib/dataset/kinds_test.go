package dataset

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var ids = Ids{Lo: 10, Hi: 1000, Seed: 7}

// frozen writes a set, reads it back and compares.
func frozen(t *testing.T, prompts []Prompt, err error) []Prompt {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Write(prompts)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read(bytes.NewReader(b))
	if err != nil || len(back) != len(prompts) {
		t.Fatalf("%d prompts come back of %d, error %v", len(back), len(prompts), err)
	}
	again, err := Write(back)
	if err != nil || Digest(again) != Digest(b) {
		t.Fatalf("another digest: %v", err)
	}
	return back
}

// TestMixtureHasItsShares: of 4,000 prompts three quarters are 3,000, and of 10
// with 0.25, 0.25 and 0.5 the largest remainders get 3, 2 and 5.
func TestMixtureHasItsShares(t *testing.T) {
	m, err := Mixture(ids, []Shape{{3, [2]int{10, 20}, [2]int{5, 5}}, {1, [2]int{100, 100}, [2]int{1, 2}}}, 4000)
	short, turns := 0, 0
	for i, p := range frozen(t, m, err) {
		switch n := len(p.Tokens); {
		case n >= 10 && n <= 20 && p.OutputLen == 5:
			short++
		case n == 100 && p.OutputLen <= 2:
		default:
			t.Fatalf("a prompt of %d tokens, %d out", n, p.OutputLen)
		}
		if i > 0 && (len(p.Tokens) == 100) != (len(m[i-1].Tokens) == 100) {
			turns++
		}
	}
	// Of independent draws 2·¾·¼ of the neighbours differ: 1,500, here ± 5 standard errors.
	if short != 3000 || turns < 1300 || turns > 1700 {
		t.Errorf("%d of 4000 are of the shape with three quarters, and %d neighbours differ", short, turns)
	}
	shapes, err := Shapes(30, 3, 0, []Part{{0.25, 10, 1}, {0.25, 20, 2}})
	if err != nil {
		t.Fatal(err)
	}
	m, err = Mixture(ids, shapes, 10)
	got := map[int]int{}
	for _, p := range frozen(t, m, err) {
		got[len(p.Tokens)]++
	}
	if got[30] != 5 || got[10] != 3 || got[20] != 2 {
		t.Errorf("%v; want 5 of 30, 3 of 10 and 2 of 20", got)
	}
	for want, parts := range map[string][]Part{"leave of 1": {{0.5, 1, 1}, {0.5, 1, 1}}, "part 1": {{0, 1, 1}}, "part 2": {{0.5, 1, 1}, {0.1, 0, 1}}} {
		if _, err := Shapes(30, 3, 0, parts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", parts, err)
		}
	}
}

func TestPrefixesAreShared(t *testing.T) {
	p, err := Prefixes(ids, 3, 50, 10, 4, 9)
	p = frozen(t, p, err)
	for i := range p {
		for j := range i {
			same := slices.Equal(p[i].Tokens[:50], p[j].Tokens[:50])
			if same != (i%3 == j%3) || slices.Equal(p[i].Tokens[50:], p[j].Tokens[50:]) {
				t.Errorf("prompts %d and %d: shared prefix %v", i, j, same)
			}
		}
	}
}

func TestSessionsGrow(t *testing.T) {
	p, err := Sessions(ids, 2, 3, 10, 4, 2)
	p = frozen(t, p, err)
	for i, n := range []int{10, 24, 38, 10, 24, 38} {
		if len(p[i].Tokens) != n || p[i].Turn.Number != i%3+1 || p[i].Turn.Session != i/3+1 || (i%3 > 0) != (p[i].Turn.Think > 0) {
			t.Errorf("prompt %d has %d tokens, turn %+v", i, len(p[i].Tokens), p[i].Turn)
		}
	}
	if !slices.Equal(p[1].Tokens[:10], p[0].Tokens) {
		t.Error("a turn does not begin with the one before")
	}
}

// TestNonceKeepsLengthsAndSharing: other ids in another run, the same prefix
// groups in each.
func TestNonceKeepsLengthsAndSharing(t *testing.T) {
	p, err := Prefixes(ids, 2, 20, 5, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	a, b := Nonce(ids, "run 1", p), Nonce(ids, "run 2", p)
	if slices.Equal(a[0].Tokens[:8], b[0].Tokens[:8]) || slices.Equal(a[0].Tokens[:8], p[0].Tokens[:8]) || len(a[0].Tokens) != 25 {
		t.Error("the nonce did nothing")
	}
	if !slices.Equal(a[0].Tokens[:20], a[2].Tokens[:20]) || slices.Equal(a[0].Tokens[:20], a[1].Tokens[:20]) {
		t.Error("the groups have lost their prefixes")
	}
	text := []Prompt{{Text: "hello", OutputLen: 1}}
	if x := Nonce(ids, "run 1", text)[0].Text; !strings.HasSuffix(x, "]\nhello") || x == Nonce(ids, "run 2", text)[0].Text || text[0].Text != "hello" {
		t.Errorf("text is %q", x)
	}
}

const talk = `[{"id":"a","conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello you"},{"from":"human","value":"Bye"}]},
 {"conversations":[{"from":"gpt","value":"first"}]}]`

func TestShareGPTForm(t *testing.T) {
	counted := func(s string) (int, error) { return len(strings.Fields(s)), nil }
	p, err := ShareGPT(strings.NewReader(talk), 0, 0, counted)
	if p = frozen(t, p, err); len(p) != 1 || p[0].Text != "Hi" || p[0].OutputLen != 2 {
		t.Errorf("prompts are %+v", p)
	}
	if _, err := ShareGPT(strings.NewReader(talk), 0, 0, nil); err == nil || !strings.Contains(err.Error(), "server's count") {
		t.Errorf("error %v", err)
	}
	p, err = Talks(strings.NewReader(talk), 0, 16, 1.5)
	if p = frozen(t, p, err); len(p) != 2 || len(p[1].Messages) != 3 || p[1].Messages[1] != (Message{"assistant", "Hello you"}) || p[1].Turn != (Turn{1, 2, 1.5}) {
		t.Errorf("turns are %+v", p)
	}
}

func TestCustomForms(t *testing.T) {
	p, err := Custom(strings.NewReader(`{"prompt":"a text","output_len":3}
{"prompt":[1,2,3]}
{"prompt":[{"role":"user","content":"x"}],"max_tokens":5,"body":{"response_format":{"type":"json_object"}}}
`), 0, 9)
	p = frozen(t, p, err)
	if p[0].OutputLen != 3 || p[1].OutputLen != 9 || len(p[1].Tokens) != 3 || p[2].OutputLen != 5 || string(p[2].Body["response_format"]) != `{"type":"json_object"}` {
		t.Errorf("prompts are %+v", p)
	}
	for want, text := range map[string]string{"it is empty": "", "line 1: prompt is neither": `{"text":"x"}`, "no output_len": `{"prompt":"x"}`, "line 1: ": "{"} {
		if _, err := Custom(strings.NewReader(text), 0, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestMooncakeTrace(t *testing.T) {
	p, err := Mooncake(ids, strings.NewReader(`{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1,2]}
{"timestamp":2500,"input_length":1024,"output_length":7,"hash_ids":[1,9]}
`), 0)
	p = frozen(t, p, err)
	if *p[1].At != 2.5 || len(p[0].Tokens) != 600 || len(p[1].Tokens) != 1024 || p[1].OutputLen != 7 {
		t.Fatalf("%d and %d tokens", len(p[0].Tokens), len(p[1].Tokens))
	}
	if !slices.Equal(p[0].Tokens[:512], p[1].Tokens[:512]) || slices.Equal(p[0].Tokens[512:], p[1].Tokens[512:600]) {
		t.Error("equal hashes are not equal blocks")
	}
	if _, err := Mooncake(ids, strings.NewReader(`{"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[1]}`), 0); err == nil {
		t.Error("one block cannot hold 600 tokens")
	}
}

// TestRandomTextHitsTheCount uses a server that counts long words twice and
// adds a token in front.
func TestRandomTextHitsTheCount(t *testing.T) {
	server := func(text string) (int, error) {
		n := 1
		for _, w := range strings.Fields(text) {
			n += 1 + len(w)/6
		}
		return n, nil
	}
	for _, n := range []int{2, 16, 100, 1000} {
		counted := map[string]bool{}
		text, err := RandomText(ids, fmt.Sprint(n), n, func(text string) (int, error) {
			counted[text[:1]] = true
			return server(text)
		})
		if text != "" && (len(counted) != 1 || counted[text[:1]]) {
			t.Errorf("%q begins as what was counted: a server would have it in its cache", text[:1])
		}
		if got, _ := server(text); err != nil || got != n {
			t.Errorf("%d tokens wanted, %d made, error %v", n, got, err)
		}
	}
	bytes := func(text string) (int, error) { return len(text), nil }
	for _, n := range []int{1, 3, 50} {
		if text, err := RandomText(ids, "b", n, bytes); err != nil || len(text) != n {
			t.Errorf("%d bytes wanted, %q made, error %v", n, text, err)
		}
	}
	if _, err := RandomText(ids, "x", 10, func(string) (int, error) { return 4, nil }); err == nil || !strings.Contains(err.Error(), "has 10 tokens") {
		t.Errorf("error %v", err)
	}
}

func TestCancelAndAdapters(t *testing.T) {
	p, err := Cancel(.25, 2, Adapters([]string{"a", "b"}, make([]Prompt, 12)))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, q := range p {
		if q.Cancel == 2 {
			n++
		}
		if q.Adapter != []string{"a", "b"}[i%2] {
			t.Errorf("prompt %d has adapter %q", i, q.Adapter)
		}
	}
	if n != 3 {
		t.Errorf("%d of 12 are cancelled, want 3", n)
	}
	if _, err := Cancel(2, 1, p); err == nil {
		t.Error("a share of 2 is accepted")
	}
}
