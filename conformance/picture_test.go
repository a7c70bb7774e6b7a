package conformance

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// Sizes of the picture in pixels, and the columns after which a line is cut.
const (
	charWidth  = 7.8 // of a monospace font of 13 pixels
	lineHeight = 19
	margin     = 16
)

// colours are those that a picture knows: the codes of cmd's style.
var colours = map[string]string{"1": "b", "2": "d", "31": "r", "32": "g", "33": "y"}

// picture draws what a terminal shows as SVG: lines of text with the escape
// codes of colours. An escape code that it does not know is an error.
func picture(title, text string) (string, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	columns := 0
	var body strings.Builder
	for i, line := range lines {
		text, n, err := tspans(line)
		if err != nil {
			return "", err
		}
		columns = max(columns, n)
		fmt.Fprintf(&body, "<text x=\"%d\" y=\"%d\">%s</text>\n", margin, margin+lineHeight*i+14, text)
	}
	w, h := int(charWidth*float64(columns))+2*margin, lineHeight*len(lines)+2*margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" xml:space="preserve">
<title>%s</title>
<style>text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dae0; white-space: pre }
.b { font-weight: bold } .d { fill: #9aa0aa } .r { fill: #ef6b73 } .g { fill: #8fc97a } .y { fill: #e5c07b }</style>
<rect width="100%%" height="100%%" rx="8" fill="#21252b"/>
%s</svg>
`, w, h, w, h, escape(title), body.String()), nil
}

// tspans turns one line into tspans and counts its characters.
func tspans(line string) (out string, columns int, err error) {
	class := ""
	for line != "" {
		text, rest, coloured := strings.Cut(line, "\x1b[")
		columns += utf8.RuneCountInString(text)
		switch {
		case text == "":
		case class == "":
			out += escape(text)
		default:
			out += fmt.Sprintf(`<tspan class=%q>%s</tspan>`, class, escape(text))
		}
		if !coloured {
			return out, columns, nil
		}
		code, after, ok := strings.Cut(rest, "m")
		if class = colours[code]; !ok || class == "" && code != "0" {
			return "", 0, fmt.Errorf("escape code %q is no colour", code)
		}
		line = after
	}
	return out, columns, nil
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic("a strings.Builder cannot fail: " + err.Error())
	}
	return b.String()
}

func TestPictureOfText(t *testing.T) {
	got, err := picture("a < b", "\x1b[32m+\x1b[0m x<y  \x1b[2mnever run\x1b[0m\nplain\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`width="156" height="70"`, // 16 characters of 7.8 and two lines of 19, within 16 on each side
		"<title>a &lt; b</title>",
		`<text x="16" y="30"><tspan class="g">+</tspan> x&lt;y  <tspan class="d">never run</tspan></text>`,
		`<text x="16" y="49">plain</text>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if err := xml.Unmarshal([]byte(got), new(struct{})); err != nil {
		t.Errorf("not XML: %v", err)
	}
	if _, err := picture("", "\x1b[1A"); err == nil {
		t.Error("a cursor movement was drawn")
	}
}
