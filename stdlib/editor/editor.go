// Package editor is the language server of campaign files: diagnostics,
// completion, hover, go to definition and formatting, as package lang sees them.
// It knows the protocol and no rule of the language; the names that it offers
// come from lang's tables.
//
// It starts nothing and reads only the folders of the files that an editor
// opens. What programs know of their flags comes in through Options. One
// goroutine, the connection's, owns all state: requests are answered in their
// order.
package editor

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/sotabuild/sotabuild/lang"
)

// Flag is a flag that a program knows, in the spelling of a campaign.
type Flag struct {
	Name    string
	Doc     string
	Choices []string
}

// Options is what the server needs from outside. The zero value works, with
// fewer answers.
type Options struct {
	// Definitions are the built-in framework definitions (*.hcl).
	Definitions fs.FS
	// Flags are the flags of a framework's program, from its own help text; none
	// where that is not known. dir is the campaign's folder, framework a label.
	Flags func(dir, framework string) []Flag
	// Builtin is a file with the text of a built-in definition, to go to; "" if
	// there is none.
	Builtin func(name string) string
	// Vars and Env are values of variables, see lang.Input.
	Vars, Env map[string]string
}

// Serve answers an editor over rw until it says exit, the stream ends, or ctx
// does. It returns an error where the editor left without saying shutdown.
func Serve(ctx context.Context, rw io.ReadWriteCloser, o Options) error {
	s := &server{options: o, files: map[string]file{}, told: map[string]map[string]bool{}, left: make(chan struct{})}
	stream := jsonrpc2.NewBufferedStream(rw, jsonrpc2.VSCodeObjectCodec{})
	conn := jsonrpc2.NewConn(ctx, stream, jsonrpc2.HandlerWithError(s.handle))
	var cause error
	select {
	case <-conn.DisconnectNotify():
	case <-s.left:
	case <-ctx.Done():
		cause = ctx.Err()
	}
	if err := conn.Close(); err != nil && !errors.Is(err, jsonrpc2.ErrClosed) {
		cause = errors.Join(cause, err)
	}
	<-conn.DisconnectNotify() // from here on nobody else looks at s
	if cause == nil && !s.shut {
		cause = io.ErrUnexpectedEOF
	}
	return cause
}

// diagnose loads a campaign with an editor's open files laid over it.
func (s *server) diagnose(dir string) lang.Diagnostics {
	overlay := map[string][]byte{}
	for path, f := range s.files {
		if d, name := split(path); d == dir {
			overlay[name] = []byte(f.text)
		}
	}
	_, diags := lang.Load(lang.Input{Dir: dir, Definitions: s.options.Definitions, Overlay: overlay, Vars: s.options.Vars, Env: s.options.Env})
	return diags
}
