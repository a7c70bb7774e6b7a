package lang

// Severity of a diagnostic. A warning never changes an exit code.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Range is a place in a file. Lines and columns are from 1, columns count
// grapheme clusters; End is exclusive. The zero Range is no place.
type Range struct {
	File    string `json:"file"` // relative to the campaign's folder
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	EndLine int    `json:"end_line"`
	EndCol  int    `json:"end_col"`
}

// Diagnostic is one problem. Summary is constant text of at most six words
// without user data; Detail says in full sentences what is wrong, why it
// cannot work, and what to write instead.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"` // stable id, "unknown_attribute"
	Summary  string   `json:"summary"`
	Detail   string   `json:"detail"`
	Range    Range    `json:"range"`
	// Snippet is the source line at Range, for showing with a caret.
	Snippet string `json:"snippet,omitempty"`
	// Related are further places, such as the first of two duplicates.
	Related []Range `json:"related,omitempty"`
}

// Diagnostics are sorted by file, line and column.
type Diagnostics []Diagnostic

// HasErrors reports whether any is an error.
func (d Diagnostics) HasErrors() bool {
	for _, x := range d {
		if x.Severity == Error {
			return true
		}
	}
	return false
}
