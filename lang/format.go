package lang

import (
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns a file in the canonical layout. Comments stay and nothing
// changes its meaning. A file with syntax errors is not touched: the result is
// nil and the diagnostics say why. A file in the JSON syntax comes back as it is.
func Format(name string, src []byte) ([]byte, Diagnostics) {
	p := &problems{}
	s := source{name, src}
	if len(src) > maxFile {
		p.add(cTooLarge, Range{File: name}, "The file has %d bytes; at most %d are read.", len(src), maxFile)
	} else {
		parse(s, "", p)
	}
	if diags := p.finish([]source{s}); diags.HasErrors() {
		return nil, diags
	}
	if strings.HasSuffix(name, jsonSuffix) {
		return src, nil
	}
	return hclwrite.Format(src), nil
}
