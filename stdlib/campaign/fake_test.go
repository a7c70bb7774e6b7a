package campaign

import (
	"fmt"
	"io"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

// emptyReader is a store in which nothing was ever run.
type emptyReader struct{}

func (emptyReader) Lookup(key.Key) []*cache.Record { return nil }
func (emptyReader) History(string) []*cache.Record { return nil }
func (emptyReader) Kind(string) []*cache.Record    { return nil }
func (emptyReader) Serial() uint64                 { return 0 }
func (emptyReader) Defects() []string              { return nil }
func (emptyReader) Bytes(d key.Digest) ([]byte, error) {
	return nil, fmt.Errorf("reading object %s: %w", d, cache.ErrMissing)
}
func (e emptyReader) Open(d key.Digest) (io.ReadCloser, error) {
	_, err := e.Bytes(d)
	return nil, err
}
