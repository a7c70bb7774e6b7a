package vocab

import (
	"slices"
	"strings"
	"testing"
)

func TestTableCoversEveryID(t *testing.T) {
	seen := map[string]ID{}
	for id := ID(0); id < Size; id++ {
		p := Piece(id)
		if want := map[bool]int{true: 0, false: 1}[id < 5]; id < 261 && len(p) != want {
			t.Errorf("token %d has %d bytes, want %d", id, len(p), want)
		}
		if id >= 261 && (len(p) != 2 || !Plain(id)) {
			t.Errorf("merge %d is %q, want two printable bytes", id, p)
		}
		if other, dup := seen[p]; dup && p != "" {
			t.Errorf("tokens %d and %d are both %q", other, id, p)
		}
		seen[p] = id
	}
}

func TestEncodePrefersMergesFromTheLeft(t *testing.T) {
	// " e" is the first merge, "et" the twenty-second (lead 'e', follow 't').
	cases := []struct {
		text string
		want []ID
	}{
		{"", []ID{}},
		{"A", []ID{5 + 'A'}},
		{" e", []ID{261}},
		{"et", []ID{282}},
		{" et", []ID{261, 5 + 't'}},
		{"é", []ID{5 + 0xc3, 5 + 0xa9}},
		{"<|eos|>", Encode("<|eos|>")},
	}
	for _, c := range cases {
		got := Encode(c.text)
		if !slices.Equal(got, c.want) {
			t.Errorf("Encode(%q) = %v, want %v", c.text, got, c.want)
		}
		if slices.Min(append(got, 5)) < 5 {
			t.Errorf("Encode(%q) gave a special: %v", c.text, got)
		}
		if back := Decode(got); back != c.text {
			t.Errorf("Decode(Encode(%q)) = %q", c.text, back)
		}
	}
}

func TestDecodeNamesSpecialsAndReplacesBrokenBytes(t *testing.T) {
	if got := Decode([]ID{BOS, 5 + 0xff, 5 + 0xe2, 5 + 'a', EOS}); got != "<|bos|>\uFFFD\uFFFDa<|eos|>" {
		t.Errorf("got %q", got)
	}
}

func TestChatIsChatML(t *testing.T) {
	got := Decode(Chat([]Message{{"system", "be"}, {"user", "hi"}}))
	want := "<|bos|><|im_start|>system\nbe<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// step is what one token of a stream gives.
type step struct {
	text          string
	held, stopped bool
}

func stream(stops []string, ids []ID) (steps []step, rest string) {
	d := Decoder{Stops: stops}
	for _, id := range ids {
		text, held, stopped := d.Add(id)
		steps = append(steps, step{text, held, stopped})
		if stopped {
			break
		}
	}
	return steps, d.Flush()
}

func bytes(s string) []ID {
	ids := []ID{}
	for _, b := range []byte(s) {
		ids = append(ids, firstByte+ID(b))
	}
	return ids
}

func TestDecoderHoldsBack(t *testing.T) {
	held := step{held: true}
	cases := []struct {
		name  string
		stops []string
		ids   []ID
		want  []step
		rest  string
	}{
		{"whole_character", nil, bytes("€"), []step{held, held, {text: "€"}}, ""},
		{"cut_character", nil, bytes("€"[:2]), []step{held, held}, "\uFFFD\uFFFD"},
		{"broken_by_the_next", nil, append(bytes("€"[:1]), 5+'a'), []step{held, {text: "\uFFFDa"}}, ""},
		{"never_a_start", nil, bytes("\xff\x80"), []step{{text: "\uFFFD"}, {text: "\uFFFD"}}, ""},
		{"special_is_not_held", nil, []ID{EOS, 5 + 'a'}, []step{{}, {text: "a"}}, ""},
		{"stop_found", []string{"cd", "bcx"}, bytes("abcde"), []step{{text: "a"}, held, held, {text: "b", stopped: true}}, ""},
		{"stop_not_completed", []string{"bcx"}, bytes("abcd"), []step{{text: "a"}, held, held, {text: "bcd"}}, ""},
		{"stop_pending_at_the_end", []string{"bcx"}, bytes("ab"), []step{{text: "a"}, held}, "b"},
		{"first_stop_wins", []string{"et", "."}, []ID{5 + '.', 282}, []step{{stopped: true}}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, rest := stream(c.stops, c.ids)
			if !slices.Equal(got, c.want) || rest != c.rest {
				t.Errorf("got %+v rest %q\nwant %+v rest %q", got, rest, c.want, c.rest)
			}
		})
	}
}

func FuzzStreamEqualsDecode(f *testing.F) {
	f.Add([]byte("h€llo \xff\xe2\x82 end"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ids := Encode(string(raw))
		steps, rest := stream(nil, ids)
		var s strings.Builder
		for _, p := range steps {
			s.WriteString(p.text)
		}
		if got, want := s.String()+rest, Decode(ids); got != want {
			t.Errorf("stream gives %q, Decode %q", got, want)
		}
	})
}
