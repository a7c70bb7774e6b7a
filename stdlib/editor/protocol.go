package editor

// The parts of the Language Server Protocol 3.17 that are spoken here. Lines and
// characters are from 0; characters count UTF-16 units, as the protocol has it.

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string `json:"uri"`
	Range span   `json:"range"`
}

type document struct {
	URI     string `json:"uri"`
	Version int    `json:"version"`
	Text    string `json:"text"`
}

type openParams struct {
	TextDocument document `json:"textDocument"`
}

type changeParams struct {
	TextDocument   document `json:"textDocument"`
	ContentChanges []struct {
		Text string `json:"text"` // the whole file: sync is full
	} `json:"contentChanges"`
}

type placeParams struct {
	TextDocument document `json:"textDocument"`
	Position     position `json:"position"`
}

type diagnostic struct {
	Range    span      `json:"range"`
	Severity int       `json:"severity"` // 1 error, 2 warning
	Code     string    `json:"code"`
	Source   string    `json:"source"`
	Message  string    `json:"message"`
	Related  []related `json:"relatedInformation,omitempty"`
}

type related struct {
	Location location `json:"location"`
	Message  string   `json:"message"`
}

type publishParams struct {
	URI         string       `json:"uri"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

// The kinds of completion items that are used.
const (
	kindFunction = 3
	kindVariable = 6
	kindModule   = 9
	kindProperty = 10
	kindValue    = 12
	kindFlag     = 20
)

type item struct {
	Label      string `json:"label"`
	Kind       int    `json:"kind"`
	Detail     string `json:"detail,omitempty"`
	Doc        markup `json:"documentation"`
	InsertText string `json:"insertText,omitempty"`
}

type markup struct {
	Kind  string `json:"kind"` // "markdown"
	Value string `json:"value"`
}

type hover struct {
	Contents markup `json:"contents"`
	Range    span   `json:"range"`
}

type edit struct {
	Range   span   `json:"range"`
	NewText string `json:"newText"`
}

type symbol struct {
	Name           string `json:"name"`
	Detail         string `json:"detail,omitempty"`
	Kind           int    `json:"kind"`
	Range          span   `json:"range"`
	SelectionRange span   `json:"selectionRange"`
}

// capabilities is what the server says it can.
var capabilities = map[string]any{
	"capabilities": map[string]any{
		"positionEncoding":           "utf-16",
		"textDocumentSync":           map[string]any{"openClose": true, "change": 1, "save": true},
		"completionProvider":         map[string]any{"triggerCharacters": []string{".", "\""}},
		"hoverProvider":              true,
		"definitionProvider":         true,
		"documentFormattingProvider": true,
		"documentSymbolProvider":     true,
	},
	"serverInfo": map[string]any{"name": "sotabuild"},
}
