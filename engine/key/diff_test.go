package key

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	parse := func(lines string) Manifest {
		m, err := ParseManifest("scheme i \"1\"\n" + lines)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("a", 60)+"bbbb"
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"equal":     {"a s \"x\"\n", "a s \"x\"\n", nil},
		"nothing":   {"", "", nil},
		"value":     {"flag \"max_num_seqs\" i \"64\"\n", "flag \"max_num_seqs\" i \"128\"\n", []string{"flag max_num_seqs 64 → 128"}},
		"added":     {"", "flag \"x\" b \"true\"\n", []string{"flag x (none) → true"}},
		"removed":   {"a s \"1\"\nflag \"x\" b \"true\"\n", "a s \"1\"\n", []string{"flag x true → (none)"}},
		"renamed":   {"a s \"x\"\n", "b s \"x\"\n", []string{"a x → (none)", "b (none) → x"}},
		"to absent": {"limit i \"3\"\n", "limit -\n", []string{"limit 3 → (none)"}},
		"several": {"a i \"1\"\nb i \"2\"\nd i \"4\"\n", "a i \"2\"\nc i \"3\"\nd i \"4\"\n",
			[]string{"a 1 → 2", "b 2 → (none)", "c (none) → 3"}},
		// One of three equal-named inputs changed: the other two are not named.
		"one of a set": {"in \"row\" s \"p\"\nin \"row\" s \"q\"\nin \"row\" s \"s\"\n", "in \"row\" s \"p\"\nin \"row\" s \"r\"\nin \"row\" s \"s\"\n",
			[]string{"in row q → r"}},
		"one more of a set": {"in s \"p\"\n", "in s \"p\"\nin s \"p\"\n", []string{"in (none) → p"}},
		"type":              {"v i \"1\"\n", "v s \"1\"\n", []string{`v integer "1" → text "1"`}},
		"like digests":      {"v d \"" + a + "\"\n", "v d \"" + b + "\"\n", []string{`v content "` + a + `" → content "` + b + `"`}},
		"quotes":            {"v s \"\"\n", "v s \"a b\"\n", []string{`v "" → "a b"`}},
		"no raw controls":   {"v s \"x\"\n", "v s \"\\x1b[2J\"\n", []string{`v x → "\x1b[2J"`}},
		"secret":            {"", "secret \"HF_TOKEN\" x\n", []string{"secret HF_TOKEN (none) → (secret)"}},
	} {
		var got []string
		for _, d := range Diff(parse(c.old), parse(c.new)) {
			got = append(got, d.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestDiffIsEmptyForEqualKeysOnly ties the explanation to the key.
func TestDiffIsEmptyForEqualKeysOnly(t *testing.T) {
	base := sample()
	for i := range base.facts {
		next := sample()
		next.facts = append(next.facts[:i:i], next.facts[i+1:]...)
		m := next.Finish()
		if len(Diff(base.Finish(), m)) != 1 || m.Key() == base.Finish().Key() {
			t.Errorf("without %v: %v", base.facts[i], Diff(base.Finish(), m))
		}
	}
}
