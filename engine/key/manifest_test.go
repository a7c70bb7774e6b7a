package key

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is one manifest with a fact of every type.
func sample() *Builder {
	var b Builder
	b.Digest("software", "", Digest{0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab,
		0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab})
	b.Text("arg", "000", "--max-num-seqs=128")
	b.Int("seed", "", -7)
	b.Float("rate", "", 0.1)
	b.Bool("cold", "", true)
	b.Secret("HF_TOKEN")
	b.Absent("tokenizer", "")
	return &b
}

// The constants pin scheme 1. They were computed by a program in another
// language from the description of the framing: for each fact the type's tag,
// then name, label and value each after its length as a varint, numbers as
// eight bytes, big-endian; the scheme first. If they change, raise Scheme.
const (
	goldenEmpty  = "sha256:0889b3afcfc73bebce0241c07a4e4139685933c81f0f6f590ad1d663e2fa4477"
	goldenSample = "sha256:5ed7aee716f8eaf98bcd4b9a2a472ebc62681d2f8c17f1171a84a1ab9b4e836f"
)

func TestKeysArePinned(t *testing.T) {
	if got := (Manifest{}).Key().String(); got != goldenEmpty {
		t.Errorf("empty manifest: key %s, want %s", got, goldenEmpty)
	}
	if got := sample().Finish().Key().String(); got != goldenSample {
		t.Errorf("sample: key %s, want %s", got, goldenSample)
	}
}

func TestTextIsPinned(t *testing.T) {
	want := `scheme i "1"
arg "000" s "--max-num-seqs=128"
cold b "true"
rate f "0.1"
secret "HF_TOKEN" x
seed i "-7"
software d "sha256:` + strings.Repeat("ab", 32) + `"
tokenizer -
`
	if diff := cmp.Diff(want, sample().Finish().Text()); diff != "" {
		t.Error(diff)
	}
}

// TestKeysIgnoreTheHost runs this test binary again in odd places of the world.
func TestKeysIgnoreTheHost(t *testing.T) {
	if os.Getenv("KEY_TEST_PRINT") != "" {
		fmt.Printf("key=%s\n", sample().Finish().Key())
		return
	}
	for _, env := range [][]string{
		{"TZ=Pacific/Kiritimati", "LC_ALL=tr_TR.UTF-8", "LANG=tr_TR.UTF-8"},
		{"TZ=America/St_Johns", "LC_ALL=de_DE.ISO-8859-1", "LC_NUMERIC=de_DE"},
		{"TZ=", "LC_ALL=C"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKeysIgnoreTheHost$", "-test.v")
		cmd.Env = append(env, "KEY_TEST_PRINT=1")
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "key="+goldenSample+"\n") {
			t.Errorf("%v: %v\n%s", env, err, out)
		}
	}
}

func TestUnlikeThingsHaveUnlikeKeys(t *testing.T) {
	of := func(fill func(*Builder)) Manifest {
		var b Builder
		fill(&b)
		return b.Finish()
	}
	list := func(words ...string) func(*Builder) {
		return func(b *Builder) {
			for i, w := range words {
				b.Text("arg", fmt.Sprintf("%03d", i), w)
			}
		}
	}
	manifests := map[string]Manifest{
		"nothing":        of(func(*Builder) {}),
		"absent":         of(func(b *Builder) { b.Absent("v", "") }),
		"empty":          of(func(b *Builder) { b.Text("v", "", "") }),
		"text 1":         of(func(b *Builder) { b.Text("v", "", "1") }),
		"integer 1":      of(func(b *Builder) { b.Int("v", "", 1) }),
		"float 1":        of(func(b *Builder) { b.Float("v", "", 1) }),
		"true":           of(func(b *Builder) { b.Bool("v", "", true) }),
		"text true":      of(func(b *Builder) { b.Text("v", "", "true") }),
		"label":          of(func(b *Builder) { b.Absent("v", "x") }),
		"secret":         of(func(b *Builder) { b.Secret("v") }),
		"secret as text": of(func(b *Builder) { b.Text("secret", "v", "") }),
		"ab c":           of(list("ab", "c")),
		"a bc":           of(list("a", "bc")),
		"c ab":           of(list("c", "ab")),
		"abc":            of(list("abc")),
		"twice":          of(func(b *Builder) { b.Int("v", "", 1); b.Int("v", "", 1) }),
		"digest":         of(func(b *Builder) { b.Digest("v", "", Sum(nil)) }),
		"text digest":    of(func(b *Builder) { b.Text("v", "", Sum(nil).String()) }),
		"smallest":       of(func(b *Builder) { b.Float("v", "", math.SmallestNonzeroFloat64) }),
		"infinite":       of(func(b *Builder) { b.Float("v", "", math.Inf(1)) }),
		"minus infinite": of(func(b *Builder) { b.Float("v", "", math.Inf(-1)) }),
		// 0.1+0.2 is not 0.3, and both print as 0.3 with fewer digits.
		"sum":   of(func(b *Builder) { x := 0.1; b.Float("v", "", x+0.2) }),
		"three": of(func(b *Builder) { b.Float("v", "", 0.3) }),
	}
	keys, texts := map[Key]string{}, map[string]string{}
	for name, m := range manifests {
		if other, ok := keys[m.Key()]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		if other, ok := texts[m.Text()]; ok {
			t.Errorf("%s and %s have one text", name, other)
		}
		keys[m.Key()], texts[m.Text()] = name, name
	}
}

func TestZeroHasOneSign(t *testing.T) {
	var a, b Builder
	a.Float("v", "", 0)
	b.Float("v", "", math.Copysign(0, -1))
	if a.Finish().Key() != b.Finish().Key() {
		t.Error("0 and -0 have different keys")
	}
}

func TestOrderOfAddingDoesNotMatter(t *testing.T) {
	want := sample().Finish()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := sample()
		rng.Shuffle(len(b.facts), func(i, j int) { b.facts[i], b.facts[j] = b.facts[j], b.facts[i] })
		if got := b.Finish(); got.Key() != want.Key() || got.Text() != want.Text() {
			t.Fatalf("order %v gives another manifest", b.facts)
		}
	}
}

func TestFinishedManifestIsFrozen(t *testing.T) {
	b := sample()
	m := b.Finish()
	before := m.Text()
	b.Text("zzz", "", "more")
	b.facts[0].Value = "changed"
	if m.Text() != before {
		t.Error("a finished manifest changed with its builder")
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	head := "scheme i \"1\"\n"
	for name, text := range map[string]string{
		"empty":           "",
		"other scheme":    "scheme i \"2\"\n",
		"no scheme":       "a s \"x\"\n",
		"no last newline": head + "a s \"x\"",
		"unsorted":        head + "b s \"x\"\na s \"x\"\n",
		"raw string":      head + "a s `x`\n",
		"rune":            head + "a s 'x'\n",
		"other escape":    head + "a s \"\\x41\"\n",
		"empty label":     head + "a \"\" s \"x\"\n",
		"leading zero":    head + "a i \"01\"\n",
		"no integer":      head + "a i \"1.5\"\n",
		"long float":      head + "a f \"0.10\"\n",
		"NaN":             head + "a f \"NaN\"\n",
		"minus zero":      head + "a f \"-0\"\n",
		"hex float":       head + "a f \"0x1p-2\"\n",
		"truth":           head + "a b \"yes\"\n",
		"zero digest":     head + "a d \"sha256:" + strings.Repeat("0", 64) + "\"\n",
		"short digest":    head + "a d \"sha256:ab\"\n",
		"unknown type":    head + "a q \"x\"\n",
		"value of absent": head + "a - \"\"\n",
		"no type":         head + "a\n",
		"second scheme":   head + "scheme i \"1\"\n",
		"extra space":     head + "a  s \"x\"\n",
		"trailing":        head + "a s \"x\" \n",
		"control name":    head + "a\x01b s \"x\"\n",
	} {
		if m, err := ParseManifest(text); err == nil {
			t.Errorf("%s: read as %q", name, m.Text())
		}
	}
	_, err := ParseManifest("scheme i \"2\"\n")
	if err == nil || !strings.Contains(err.Error(), `"2"`) || !strings.Contains(err.Error(), "knows 1") {
		t.Errorf("error of another scheme does not name both: %v", err)
	}
}

func TestMisuseOfBuilderPanics(t *testing.T) {
	for name, f := range map[string]func(*Builder){
		"NaN":            func(b *Builder) { b.Float("v", "", math.NaN()) },
		"no name":        func(b *Builder) { b.Text("", "", "x") },
		"two words":      func(b *Builder) { b.Text("a b", "", "x") },
		"reserved":       func(b *Builder) { b.Int("scheme", "", 1) },
		"not ASCII":      func(b *Builder) { b.Text("größe", "", "x") },
		"foreign float":  func(b *Builder) { b.Add(Fact{"v", "", Float, "1.0"}) },
		"foreign type":   func(b *Builder) { b.Add(Fact{"v", "", 'q', ""}) },
		"secret's value": func(b *Builder) { b.Add(Fact{"v", "", Withheld, "hunter2"}) },
	} {
		if !panics(func() { f(new(Builder)) }) {
			t.Errorf("%s: no panic", name)
		}
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

func FuzzTextRoundTrip(f *testing.F) {
	f.Add("flag", "max/num", "128", "a\nb", int64(-1), 0.5)
	f.Add("env", "", "", "\xff\xfe\x00", int64(1)<<62, -1e300)
	f.Fuzz(func(t *testing.T, name, label, v1, v2 string, n int64, x float64) {
		if !word(name) || math.IsNaN(x) {
			t.Skip()
		}
		var b Builder
		b.Text(name, label, v1)
		b.Text(name, v1, v2)
		b.Int(name, v2, n)
		b.Float("x", label, x)
		b.Absent(name, label)
		b.Secret(label)
		m := b.Finish()
		back, err := ParseManifest(m.Text())
		if err != nil {
			t.Fatalf("%v\n%s", err, m.Text())
		}
		if diff := cmp.Diff(m.Facts(), back.Facts()); diff != "" || m.Key() != back.Key() {
			t.Fatalf("not the same after reading back:\n%s", diff)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add(sample().Finish().Text())
	f.Add("scheme i \"1\"\na \"\\xff\" f \"+Inf\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		if m.Text() != text {
			t.Fatalf("read %q, wrote %q", text, m.Text())
		}
		m.Key() // must not panic
	})
}

func TestDigestForms(t *testing.T) {
	// The digest of no bytes is in FIPS 180-2's test vectors.
	const none = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	d := Sum(nil)
	if d.String() != none || d.Short() != "e3b0c44298fc" {
		t.Errorf("digest of nothing: %s, short %s", d, d.Short())
	}
	back, err := ParseDigest(none)
	if err != nil || back != d {
		t.Errorf("read back %v, %v", back, err)
	}
	for _, s := range []string{"", none[7:], strings.ToUpper(none), none + "0", "sha256:" + strings.Repeat("g", 64), "sha1:" + none[7:]} {
		if _, err := ParseDigest(s); err == nil {
			t.Errorf("%q was read as a digest", s)
		}
	}
	var k Key
	if err := k.UnmarshalText([]byte(none)); err != nil || k.IsZero() {
		t.Errorf("key %v, %v", k, err)
	}
	if err := k.UnmarshalText(nil); err != nil || !k.IsZero() {
		t.Errorf("key of no text %v, %v", k, err)
	}
}

// BenchmarkKeys is 100,000 manifests of about 300 bytes; the goal is 60 ms.
func BenchmarkKeys(b *testing.B) {
	manifests := make([]Manifest, 100_000)
	for i := range manifests {
		bl := sample()
		bl.Int("prompts", "", int64(i))
		bl.Digest("in", "dataset", Sum([]byte("dataset")))
		bl.Text("env", "NCCL_IB_DISABLE", "1")
		manifests[i] = bl.Finish()
	}
	b.SetBytes(int64(len(manifests) * len(manifests[0].Text())))
	b.ReportAllocs()
	for b.Loop() {
		for _, m := range manifests {
			m.Key()
		}
	}
}
