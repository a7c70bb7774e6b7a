// Package key turns everything that can change a node's result into a
// manifest, and a manifest into a key.
//
// A Manifest is text by construction: one typed fact a line. One walker
// (Manifest.walk) feeds two sinks, the hash and the text, so that what is
// explained cannot diverge from what is keyed. Facts are framed by length and
// tagged by type before hashing; maps are sorted by bytes; an absent value is
// a value of its own and never equals the empty string; numbers are hashed as
// numbers, never as text.
//
// Files fingerprints what lies on the disk: a file by its bytes, a tree by its
// names, kinds and bytes; nothing else of the package reads a file or a clock.
//
// The package knows no node, no store and no campaign, and reads no environment
// and no locale. Manifests are immutable after Builder.Finish and may be shared
// between goroutines.
//
// A Key names work ("what would be done"); a Digest names bytes ("what came
// out"). Both are sha256, and they are different types on purpose.
package key

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Scheme is the version of the manifest's framing. It is the first fact of
// every manifest, so a change of scheme makes every key new at once and plan
// can say so once.
const Scheme = 1

// Key is the hash of a manifest: "this work". The zero Key is no key: a node
// whose inputs are not all known has it.
type Key [sha256.Size]byte

// Digest is the sha256 of bytes: "this output". The zero Digest means absent.
type Digest [sha256.Size]byte

// IsZero reports whether the key is not known.
func (k Key) IsZero() bool { return k == Key{} }

// IsZero reports whether the digest is absent.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is the full form "sha256:<64 hex>".
func (k Key) String() string { return Digest(k).String() }

// String is the full form "sha256:<64 hex>".
func (d Digest) String() string {
	const scheme = "sha256:"
	var b [len(scheme) + 2*sha256.Size]byte // one allocation: every input of every node is written so
	hex.Encode(b[copy(b[:], scheme):], d[:])
	return string(b[:])
}

// Short is the first 12 hex digits, for people.
func (k Key) Short() string { return hex.EncodeToString(k[:6]) }

// Short is the first 12 hex digits, for people.
func (d Digest) Short() string { return hex.EncodeToString(d[:6]) }

// Sum is the digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// ParseDigest reads the form that Digest.String writes.
func ParseDigest(s string) (Digest, error) {
	b, err := parse(s)
	return Digest(b), err
}

// ParseKey reads the form that Key.String writes.
func ParseKey(s string) (Key, error) {
	b, err := parse(s)
	return Key(b), err
}

func parse(s string) ([sha256.Size]byte, error) {
	var out [sha256.Size]byte
	h, ok := strings.CutPrefix(s, "sha256:")
	if ok = ok && len(h) == 2*sha256.Size; ok {
		for i := range out {
			high, low := digit(h[2*i]), digit(h[2*i+1])
			ok = ok && high < 16 && low < 16
			out[i] = high<<4 | low
		}
	}
	if !ok {
		return [sha256.Size]byte{}, fmt.Errorf("parsing digest %q: want sha256: and 64 lower-case hex digits", s)
	}
	return out, nil
}

// digit is the value of a lower-case hex digit, 255 if it is none.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

// MarshalText writes the full form, so keys are readable in records.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the full form; an empty text is the zero key.
func (k *Key) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*k = Key{}
		return nil
	}
	*k, err = ParseKey(string(b))
	return err
}

// MarshalText writes the full form.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the full form; an empty text is the zero digest.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*d = Digest{}
		return nil
	}
	*d, err = ParseDigest(string(b))
	return err
}
