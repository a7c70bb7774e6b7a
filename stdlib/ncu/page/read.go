package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// maxBytes bounds a page after decompression; the largest real ones (full set,
// hundreds of launches) stay below a tenth of it.
const maxBytes = 256 << 20

// Read reads every table of a stream, details or raw, plain or gzip.
func Read(r io.Reader) (Report, error) {
	data, err := slurp(r)
	if err != nil {
		return Report{}, err
	}
	s := split(data)
	if len(s.tables) == 0 {
		return Report{}, s.refusal(data)
	}
	var out []Report
	for _, t := range s.tables {
		rep, err := t.report()
		if err != nil {
			return Report{}, err
		}
		out = append(out, rep)
	}
	rep := Merge(out...)
	rep.Notes = append(rep.Notes, s.notes.list...)
	if len(rep.Launches) == 0 {
		if r := s.refused(); r != nil {
			return Report{}, r
		}
		return Report{}, errors.New("reading ncu page: a header and no launch below it; the file was cut off or no kernel was profiled")
	}
	return rep, nil
}

func slurp(r io.Reader) ([]byte, error) {
	b := bufio.NewReader(r)
	src := io.Reader(b)
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("reading ncu page: %w", err)
		}
		src = z
	}
	data, err := io.ReadAll(io.LimitReader(src, maxBytes+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && len(data) > 0:
		// A cut gzip: what came out is read, and the cut last record is counted.
	case err != nil:
		return nil, fmt.Errorf("reading ncu page: %w", err)
	case len(data) > maxBytes:
		return nil, fmt.Errorf("reading ncu page: larger than %d bytes; export fewer launches or metrics", maxBytes)
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("reading ncu page: not UTF-8 text (a shell may have saved it as UTF-16, or it is the binary .ncu-rep); save the output of ncu --import FILE --csv as UTF-8")
	}
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil
}

// sifted is a stream taken apart: tables, and the lines that are none.
type sifted struct {
	tables []*table
	said   []string // ==…== lines and the list of available kernels
	notes  notes
}

type table struct {
	header []string
	rows   [][]string
	notes  notes
}

var (
	rowStart    = lazyregexp.New(`^"?[0-9]+"?,`)
	headerStart = lazyregexp.New(`^"?ID"?,`)
	unitRow     = lazyregexp.New(`^("")?,`)
	available   = lazyregexp.New(`^(Available Kernels:|[0-9]+\. )`)
)

// split finds the tables. A live run prints the program's own output and ncu's
// messages around the table, so a line counts only if it starts as a row does;
// a quoted field may run over several lines.
func split(data []byte) *sifted {
	s := &sifted{}
	var open strings.Builder // a record whose last quote is not closed yet
	quotes := 0
	flush := func(cut bool) {
		if open.Len() > 0 {
			s.record(open.String(), cut)
		}
		open.Reset()
		quotes = 0
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		starts := rowStart.MatchString(line) || headerStart.MatchString(line) || (len(s.tables) > 0 && unitRow.MatchString(line))
		if quotes%2 == 1 && !rowStart.MatchString(line) && !headerStart.MatchString(line) {
			open.WriteByte('\n')
			open.WriteString(line)
			quotes += strings.Count(line, `"`)
			if quotes%2 == 0 {
				flush(false)
			}
			continue
		}
		flush(true) // non-empty only if its quote never closed
		switch {
		case starts:
			open.WriteString(line)
			if quotes = strings.Count(line, `"`); quotes%2 == 0 {
				flush(false)
			}
		case strings.HasPrefix(line, "==") || available.MatchString(line):
			s.said = append(s.said, line)
			if strings.HasPrefix(line, "==ERROR==") && len(s.tables) > 0 {
				s.notes.add("ncu reported an error beside the table", line)
			}
		case strings.TrimSpace(line) != "" && len(s.tables) > 0:
			s.notes.add("lines that are no rows", line)
		}
	}
	flush(true)
	return s
}

func (s *sifted) record(text string, cut bool) {
	if cut {
		s.notes.add("rows cut off inside a quoted field, dropped", text)
		return
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	fields, err := r.Read()
	switch {
	case err != nil:
		s.notes.add("rows with broken quoting, dropped", text)
	case fields[0] == "ID":
		s.tables = append(s.tables, &table{header: fields})
	case len(s.tables) == 0: // output of the program that happens to start like a row
	default:
		t := s.tables[len(s.tables)-1]
		t.rows = append(t.rows, fields)
	}
}

// refused is what ncu said, when that explains a missing table.
func (s *sifted) refused() *Refusal {
	var text []string
	code := RefusalCode("")
	for _, l := range s.said {
		switch {
		case strings.Contains(l, "ERR_NVGPUCTRPERM"):
			code = NoPermission
		case strings.Contains(l, "No kernels were profiled") && code != NoPermission:
			code = NoKernel
		case strings.HasPrefix(l, "==ERROR==") && code == "":
			code = ToolError
		}
		if !strings.HasPrefix(l, "==PROF==") {
			text = append(text, strings.TrimSpace(strings.NewReplacer("==ERROR==", "", "==WARNING==", "").Replace(l)))
		}
	}
	if code == "" {
		return nil
	}
	return &Refusal{Code: code, Text: clip(strings.Join(text, " "), 2000)}
}

func (s *sifted) refusal(data []byte) error {
	if r := s.refused(); r != nil {
		return r
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	switch {
	case first == "":
		return errors.New("reading ncu page: the file is empty")
	case strings.HasPrefix(strings.Trim(first, `"`), "ID;") || strings.HasPrefix(first, `"ID";`) || strings.HasPrefix(first, "ID\t"):
		return errors.New("reading ncu page: fields are not separated by commas (a spreadsheet saved it again); export it anew with ncu --import FILE --csv")
	}
	return fmt.Errorf("reading ncu page: no line starts with \"ID\", so this is no CSV of ncu's details or raw page; the first line is %q", clip(first, 120))
}

// notes counts flaws by text, in order of first sight.
type notes struct{ list []Note }

func (n *notes) add(text, example string) {
	for i := range n.list {
		if n.list[i].Text == text {
			n.list[i].Count++
			return
		}
	}
	n.list = append(n.list, Note{Text: text, Count: 1, Example: clip(example, 120)})
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
