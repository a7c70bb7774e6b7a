package scan

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func TestNanoseconds(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "-0": 0, "1": 1000, "1.5": 1500, "1.0005": 1001, "1.0004999": 1000, "-1.0005": -1001, "4026150081635.2149": 4026150081635215,
		`"7.25"`: 7250, "1665536373729077": 1665536373729077000, "1e3": 1_000_000, "1.5E-3": 2, "2.4e-3": 2, "+3": 3000, "1665536373729077.123": 1665536373729077123,
	} {
		if got, ok := Nanoseconds([]byte(in)); !ok || got != want {
			t.Errorf("Nanoseconds(%s) = %d, %v; want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "x", "1x", "--1", "1.2.3", "9223372036854775807", "1e40", "1e-99", "nan", "null", "{}", "1_000", "0x10", "1/2", "e", "1e"} {
		if got, ok := Nanoseconds([]byte(in)); ok {
			t.Errorf("Nanoseconds(%q) = %d, want none", in, got)
		}
	}
}

// The number parser agrees with exact arithmetic on everything it accepts.
func FuzzNanoseconds(f *testing.F) {
	for _, s := range []string{"0", "1.5", "-7.0005", "4026150081635.2149", "1e3", "1.5E-3", "99999999999999999999", "1e999", ".5", "5.", "00012.3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := Nanoseconds([]byte(s))
		if !ok || len(s) > 60 || strings.ContainsAny(s, `"`) {
			return
		}
		exact, good := new(big.Rat).SetString(strings.TrimSuffix(strings.TrimPrefix(s, "+"), "."))
		if !good {
			t.Fatalf("Nanoseconds(%q) = %d, but it is no number", s, got)
		}
		diff := exact.Mul(exact, big.NewRat(1000, 1)).Sub(exact, new(big.Rat).SetInt64(got))
		if diff.Abs(diff).Cmp(big.NewRat(1, 2)) > 0 {
			t.Fatalf("Nanoseconds(%q) = %d, off by %s", s, got, diff.FloatString(4))
		}
	})
}

// On valid JSON the scanner finds the same fields as encoding/json; on any
// input it ends without a panic.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"ph":"X","cat":"kernel","name":"a\"b","ts":1.5,"args":{"a":[1,{"b":"}"}]}}`,
		`{"name":"x","name":"y"}`, `{}`, `{ "ts" : "1" , "dur":null }`, `{"a":{"b":"\\"},"ph":"i"}`, `{"ph":"X"`, `{"ph" "X"}`, `{"args":{"x":"}"}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !strings.HasPrefix(s, "{") {
			return
		}
		var e Event
		n, st := e.Scan([]byte(s + " "))
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &want) != nil {
			return
		}
		if st != Complete || n != len(strings.TrimRight(s, " \t\r\n")) {
			t.Fatalf("scan(%q) = %d, %d; it is a valid object", s, n, st)
		}
		for key, got := range map[string][]byte{"ts": e.TS, "dur": e.Dur, "args": e.Args, "pid": e.PID} {
			if strings.Contains(s, `\u`) || strings.Contains(s, "\x00") {
				continue // an escaped key is another spelling; the reader knows plain ones
			}
			if string(got) != string(want[key]) {
				t.Fatalf("scan(%q): %s is %q, want %q", s, key, got, want[key])
			}
		}
	})
}

func TestUnescapeAgainstStandardLibrary(t *testing.T) {
	for _, raw := range []string{`plain`, `a\"b`, `\\`, `\/\b\f\n\r\t`, `\u0041\u00e9\u20ac`, `\ud83d\ude00`, `x\ud83d`, `\udc00y`} {
		var want string
		if err := json.Unmarshal([]byte(`"`+raw+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if got := string(Unescape([]byte(raw))); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", raw, got, want)
		}
	}
	for raw, want := range map[string]string{`C:\Users\_x`: `C:\Users\_x`, `\u12`: `\u12`, `end\`: `end\`} {
		if got := string(Unescape([]byte(raw))); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", raw, got, want)
		}
	}
}
