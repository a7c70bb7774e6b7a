package editor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/sotabuild/sotabuild/lang"
)

// file is an open file as the editor has it.
type file struct{ text string }

// server is one editor's session.
type server struct {
	options Options
	files   map[string]file // by path
	// told are the addresses that have diagnostics now, by campaign folder, so
	// that solved ones are taken back.
	told map[string]map[string]bool
	shut bool          // shutdown was said
	left chan struct{} // closed at exit
}

// handle answers one message. Notifications that are not known are ignored, as
// the protocol wants.
func (s *server) handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	if s.shut && r.Method != "exit" {
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: "the server is shut down"}
	}
	switch r.Method {
	case "initialize":
		return capabilities, nil
	case "initialized", "textDocument/didSave":
		return nil, nil
	case "shutdown":
		s.shut = true
		return nil, nil
	case "exit":
		select {
		case <-s.left: // said twice
		default:
			close(s.left)
		}
		return nil, nil
	case "textDocument/didOpen":
		var p openParams
		return nil, s.with(r, &p, func() error { return s.set(ctx, conn, p.TextDocument.URI, &p.TextDocument.Text) })
	case "textDocument/didChange":
		var p changeParams
		return nil, s.with(r, &p, func() error {
			if n := len(p.ContentChanges); n > 0 {
				return s.set(ctx, conn, p.TextDocument.URI, &p.ContentChanges[n-1].Text)
			}
			return nil
		})
	case "textDocument/didClose":
		var p openParams
		return nil, s.with(r, &p, func() error { return s.set(ctx, conn, p.TextDocument.URI, nil) })
	}
	answer, ok := map[string]func(path, text string, at position) any{
		"textDocument/completion": s.complete, "textDocument/hover": s.hover, "textDocument/definition": s.definition,
		"textDocument/formatting": s.format, "textDocument/documentSymbol": s.symbols,
	}[r.Method]
	if !ok {
		if r.Notif {
			return nil, nil
		}
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "no method " + r.Method}
	}
	var p placeParams
	var result any
	err := s.with(r, &p, func() error {
		path, ok := pathOf(p.TextDocument.URI)
		f, open := s.files[path]
		if !ok || !open {
			return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: fmt.Sprintf("%q is not open", p.TextDocument.URI)}
		}
		result = answer(path, f.text, p.Position)
		return nil
	})
	return result, err
}

// with reads a message's parameters and then does what it asks.
func (s *server) with(r *jsonrpc2.Request, params any, do func() error) error {
	if r.Params == nil {
		return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: r.Method + " has no parameters"}
	}
	if err := json.Unmarshal(*r.Params, params); err != nil {
		return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
	}
	return do()
}

// set takes over a file's text, nil when it is closed, and tells what is wrong
// with its campaign now.
func (s *server) set(ctx context.Context, conn *jsonrpc2.Conn, uri string, text *string) error {
	path, ok := pathOf(uri)
	if !ok {
		return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: fmt.Sprintf("%q is no file", uri)}
	}
	if text == nil {
		delete(s.files, path)
	} else {
		s.files[path] = file{*text}
	}
	dir, _ := split(path)
	return s.publish(ctx, conn, dir, path)
}

// publish sends every file's diagnostics. A problem of a file that is not there
// is shown in the file that was changed: an editor shows none elsewhere.
func (s *server) publish(ctx context.Context, conn *jsonrpc2.Conn, dir, changed string) error {
	byFile := map[string][]diagnostic{}
	for _, d := range s.diagnose(dir) {
		path := changed
		if p := filepath.Join(dir, d.Range.File); d.Range.File != "" && (s.isOpen(p) || exists(p)) {
			path = p
		}
		byFile[uriOf(path)] = append(byFile[uriOf(path)], s.diagnostic(dir, path, d))
	}
	for uri := range s.told[dir] {
		if _, still := byFile[uri]; !still {
			byFile[uri] = []diagnostic{}
		}
	}
	if u := uriOf(changed); byFile[u] == nil {
		byFile[u] = []diagnostic{} // says that the file was looked at
	}
	s.told[dir] = map[string]bool{}
	var uris []string
	for uri, list := range byFile {
		uris = append(uris, uri)
		if len(list) > 0 {
			s.told[dir][uri] = true
		}
	}
	slices.Sort(uris)
	for _, uri := range uris {
		if err := conn.Notify(ctx, "textDocument/publishDiagnostics", publishParams{uri, byFile[uri]}); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) isOpen(path string) bool { _, ok := s.files[path]; return ok }

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// text is a file as the editor has it, or else as it lies on disk; "" if it
// cannot be read, which the loader tells.
func (s *server) text(path string) string {
	if f, ok := s.files[path]; ok {
		return f.text
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func (s *server) diagnostic(dir, path string, d lang.Diagnostic) diagnostic {
	severity := 1
	if d.Severity == lang.Warning {
		severity = 2
	}
	out := diagnostic{Severity: severity, Code: d.Code, Source: "sotabuild", Message: d.Summary + ": " + d.Detail}
	if filepath.Join(dir, d.Range.File) == path {
		out.Range = spanOf(s.text(path), d.Range)
	}
	for _, r := range d.Related {
		p := filepath.Join(dir, r.File)
		out.Related = append(out.Related, related{location{uriOf(p), spanOf(s.text(p), r)}, "see here"})
	}
	return out
}

// format answers with one edit of the whole file, none where nothing changes or
// the file has syntax errors, which the diagnostics tell.
func (s *server) format(path, text string, _ position) any {
	_, name := split(path)
	out, diags := lang.Format(name, []byte(text))
	if diags.HasErrors() || string(out) == text {
		return []edit{}
	}
	return []edit{{span{position{}, positionOf(text, len(text))}, string(out)}}
}

// The kinds of document symbols that are used.
const (
	symbolModule   = 2
	symbolVariable = 13
)

func (s *server) symbols(path, text string, _ position) any {
	_, name := split(path)
	list := []symbol{}
	for _, x := range lang.Symbols(name, []byte(text)) {
		kind := symbolModule
		if x.Kind == "local" || x.Kind == "variable" {
			kind = symbolVariable
		}
		list = append(list, symbol{Name: x.Name, Detail: x.Kind, Kind: kind, Range: spanOf(text, x.Whole), SelectionRange: spanOf(text, x.Range)})
	}
	return list
}

// named is a symbol with the file that declares it.
type named struct {
	lang.Symbol
	path string
}

// declared lists what all files of a campaign declare, in order of the files.
func (s *server) declared(dir string) []named {
	paths, err := filepath.Glob(filepath.Join(escape(dir), "*.hcl"))
	if err != nil {
		return nil // only for a bad pattern
	}
	for p := range s.files {
		if d, _ := split(p); d == dir && strings.HasSuffix(p, ".hcl") {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	var list []named
	for _, p := range slices.Compact(paths) {
		_, name := split(p)
		for _, x := range lang.Symbols(name, []byte(s.text(p))) {
			list = append(list, named{x, p})
		}
	}
	return list
}

// escape takes the meaning of a pattern from a folder's name.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
