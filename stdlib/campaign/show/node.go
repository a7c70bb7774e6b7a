package show

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Node is a record's outputs for a terminal, each under a line with its name where
// there are several: a row first, with its numbers in front; then what is one JSON
// document, indented; then the rest as it is, such as a log of requests.
func Node(r cache.Reader, rec *cache.Record) ([]byte, error) {
	type output struct {
		cache.Output
		bytes []byte
		order int
	}
	var all []output
	for _, o := range rec.Outputs {
		b, err := r.Bytes(o.Digest)
		if err != nil {
			return nil, err
		}
		x := output{o, b, 2}
		if indented, ok := document(b); ok {
			x.bytes, x.order = indented, 1
		}
		if o.Name == "row" {
			x.order = 0
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b output) int { return cmp.Compare(a.order, b.order) })
	var out bytes.Buffer
	for _, o := range all {
		if o.Name == "row" {
			var row result.Row
			if err := json.Unmarshal(o.bytes, &row); err != nil {
				return nil, fmt.Errorf("reading the row of %s: %w", rec.Node, err)
			}
			out.WriteString(report.RowText(&row))
		}
		if len(all) > 1 {
			fmt.Fprintf(&out, "--- %s, %d bytes, %s\n", o.Name, o.Size, o.Digest)
		}
		out.Write(o.bytes)
		if n := len(o.bytes); n > 0 && o.bytes[n-1] != '\n' {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// document is an object or a list in JSON, indented; false for what is none, or is
// several, as lines of JSON are.
func document(b []byte) ([]byte, bool) {
	if t := bytes.TrimSpace(b); len(t) == 0 || t[0] != '{' && t[0] != '[' {
		return nil, false
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(b), "", "  "); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}
