package key_test

import (
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
)

// A manifest with further facts is the one that a builder makes of all of them,
// and neither the first manifest nor a builder that is used again changes it.
func TestWithIsTheSameAsBuildingAnew(t *testing.T) {
	digests := []key.Digest{key.Sum([]byte("b")), {}, key.Sum([]byte("a"))}
	var b key.Builder
	b.Grow(2)
	b.Text("zone", "", "z")
	b.Int("kind", "bench", 3)
	own := b.Finish()
	before := own.Text()
	with := own.With("in", len(digests), func(i int) (string, key.Digest) { return "rows", digests[i] })
	b.Reset()
	b.Text("other", "", "facts")
	b.Text("more", "", "facts")

	var want key.Builder
	want.Include(own)
	want.Digest("in", "rows", digests[0])
	want.Digest("in", "rows", digests[2])
	if with.Text() != want.Finish().Text() || with.Key() != want.Finish().Key() {
		t.Errorf("got\n%swant\n%s", with.Text(), want.Finish().Text())
	}
	if own.Text() != before {
		t.Errorf("the manifest changed:\n%s", own.Text())
	}
}
