// Package redact keeps the values of declared secrets out of text. It knows
// values, not shapes: what is not declared is not found. Secrets are values
// that do not change, so they may be used from any goroutine.
package redact

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Secrets are the values to keep out of everything written, longest first.
type Secrets []secret

type secret struct{ name, value string }

// minSecret is the shortest value that is taken for a secret: replacing
// shorter ones would shred every log.
const minSecret = 4

// Find takes the values from the environment.
func Find(names []string) (Secrets, error) {
	var out Secrets
	var bad []error
	for _, name := range names {
		switch value, ok := os.LookupEnv(name); {
		case !ok:
			bad = append(bad, fmt.Errorf("secret %s is not set in the environment", name))
		case len(value) < minSecret:
			bad = append(bad, fmt.Errorf("secret %s has %d bytes; at least %d are needed to redact it", name, len(value), minSecret))
		default:
			out = append(out, secret{name, value})
		}
	}
	slices.SortFunc(out, func(a, b secret) int { return cmp.Compare(len(b.value), len(a.value)) })
	return out, errors.Join(bad...)
}

// Env returns the secrets as NAME=value.
func (s Secrets) Env() []string {
	var out []string
	for _, x := range s {
		out = append(out, x.name+"="+x.value)
	}
	return out
}

// Text returns text without secrets.
func (s Secrets) Text(text string) string {
	for _, x := range s {
		text = strings.ReplaceAll(text, x.value, x.mask())
	}
	return text
}

// Texts does so for each text of a list, into a new one.
func (s Secrets) Texts(list []string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = s.Text(text)
	}
	return out
}

func (x secret) mask() string { return "[" + x.name + " redacted]" }

// redact returns what of data can be written now and what must wait for more:
// an end that may be the beginning of a secret. With last nothing waits.
func (s Secrets) redact(data []byte, last bool) (out, rest []byte) {
	var firsts [256]bool
	for _, x := range s {
		firsts[x.value[0]] = true
	}
	for i := 0; i < len(data); i++ {
		clean := i
		for i < len(data) && !firsts[data[i]] {
			i++
		}
		out = append(out, data[clean:i]...)
		if i == len(data) {
			break
		}
		tail := data[i:]
		hit := -1
		for j, x := range s {
			if len(tail) < len(x.value) && !last && strings.HasPrefix(x.value, string(tail)) {
				return out, slices.Clone(tail) // a longer one may still come
			}
			if hit < 0 && bytes.HasPrefix(tail, []byte(x.value)) {
				hit = j
			}
		}
		if hit < 0 {
			out = append(out, data[i])
			continue
		}
		out = append(out, s[hit].mask()...)
		i += len(s[hit].value) - 1
	}
	return out, nil
}

// Copy copies until the end of r, without secrets. It goes on reading when w
// fails (disk full): whoever writes into the pipe must never hang.
func (s Secrets) Copy(w io.Writer, r io.Reader) error {
	var rest []byte
	var lost error
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		var out []byte
		out, rest = s.redact(append(rest, buf[:n]...), err != nil)
		if lost == nil && len(out) > 0 {
			_, lost = w.Write(out)
		}
		if err != nil {
			return lost
		}
	}
}
