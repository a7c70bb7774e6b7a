package wire

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// bodies are the captured answers, as seeds.
func bodies(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("../testdata/*/*.http")
	if err != nil || len(files) < 20 {
		f.Fatalf("%d captures, error %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(7))
	}
}

// FuzzAnswer: however the bytes are split, an answer means the same.
func FuzzAnswer(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		for _, api := range []API{Completions, Chat, LlamaCpp, SGLang} {
			whole, parts := NewAnswer(api, nil, 8), NewAnswer(api, nil, 8)
			_, ok := whole.Feed(time.Second, b)
			again := true
			for piece := range slices.Chunk(b, int(step%16)+1) {
				if _, again = parts.Feed(time.Second, piece); !again {
					break
				}
			}
			if ok {
				whole.End()
			}
			if again {
				parts.End()
			}
			x, y := whole.Verdict(0, 8, false), parts.Verdict(0, 8, false)
			if x != y || whole.Usage != parts.Usage || len(whole.Marks) != len(parts.Marks) {
				t.Fatalf("%s: whole %v %+v, in pieces %v %+v", api, x, whole.Usage, y, parts.Usage)
			}
			if x.Class == "" && (len(whole.Marks) == 0 || whole.Usage.Output < 1) {
				t.Fatalf("%s: a success without a token: %+v", api, whole.Usage)
			}
		}
	})
}

// FuzzScanner: what the scanner takes for JSON is JSON, and the other way
// round, as far as nesting allows.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e-3,"\u00e9\n",null,true,false,{}]}`, `-0`, `01`, `"\ud800"`, `[1,]`, `{"a" : "b"}`, "\"\x00\"", ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := scanner{b: b}
		s.skip()
		err := s.end()
		if deep := len(b) > maxDepth; (err == nil) != json.Valid(b) && !deep {
			t.Fatalf("%q: scanner says %v, encoding/json %v", b, err, json.Valid(b))
		}
	})
}
