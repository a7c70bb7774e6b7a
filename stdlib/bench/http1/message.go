package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
)

const (
	maxHead = 1 << 20
	maxLine = 4096 // of a chunk's size, or in a trailer
)

// message cuts one answer out of the bytes of a connection, in one pass and in
// any split. The zero message with a receiver is ready.
type message struct {
	to    Receiver
	began bool // something of it came

	state func(*message, []byte) (rest []byte, err error)
	text  []byte // the head, or the line, so far
	left  int64  // bytes of the body or the chunk that are still to come
	tail  []byte // the trailer so far
	keep  bool   // the server keeps the connection
	stop  bool   // the receiver gave it up
	ended bool   // it is complete
	extra bool   // something followed it
}

// reusable says whether the connection may carry another answer.
func (m *message) reusable() bool { return m.ended && m.keep && !m.extra && !m.stop }

// over says whether nothing more is to be read.
func (m *message) over() bool { return m.ended || m.stop }

// feed takes the next bytes.
func (m *message) feed(b []byte) (err error) {
	m.began = true
	if m.state == nil {
		m.state = (*message).head
	}
	for len(b) > 0 && err == nil && !m.over() {
		b, err = m.state(m, b)
	}
	m.extra = len(b) > 0
	return err
}

// end takes the end of the connection: nil where it ends the answer.
func (m *message) end() error {
	switch {
	case !m.began:
		return io.EOF
	case m.left == untilEnd:
		m.ended = true
		return nil
	}
	return io.ErrUnexpectedEOF
}

// untilEnd is how much is left of a body that ends with the connection.
const untilEnd = -1

func (m *message) head(b []byte) ([]byte, error) {
	from := max(0, len(m.text)-3)
	m.text = append(m.text, b...)
	at := headEnd(m.text[from:])
	if at < 0 {
		if len(m.text) > maxHead {
			return nil, fmt.Errorf("the head of the answer has more than %d bytes", maxHead)
		}
		return nil, nil
	}
	at += from
	rest := b[len(b)-(len(m.text)-at):]
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(m.text[:at])), &http.Request{Method: http.MethodPost})
	if err != nil {
		return nil, err
	}
	m.text = m.text[:0]
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, errors.New("the server switched to another protocol, which nobody asked for")
	case resp.StatusCode < 200:
		return rest, nil // the final head follows
	}
	resp.Body = http.NoBody
	m.keep = !resp.Close
	switch {
	case len(resp.TransferEncoding) > 0: // ReadResponse knows chunked only
		m.state = (*message).size
	case resp.ContentLength >= 0:
		m.left, m.state = resp.ContentLength, (*message).body
		m.ended = m.left == 0
	default:
		m.left, m.state, m.keep = untilEnd, (*message).open, false
	}
	m.to.Head(resp)
	return rest, nil
}

// headEnd is where the first empty line ends, -1 if there is none yet.
func headEnd(b []byte) int {
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return -1
		}
		i += n + 1
		switch rest := b[i:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return i + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return i + 2
		}
	}
}

func (m *message) give(b []byte) { m.stop = !m.to.Data(b) }

// open is a body that ends with the connection.
func (m *message) open(b []byte) ([]byte, error) {
	m.give(b)
	return nil, nil
}

// body is one of a known length.
func (m *message) body(b []byte) ([]byte, error) {
	b, rest := m.cut(b)
	m.give(b)
	m.ended = m.left == 0
	return rest, nil
}

func (m *message) cut(b []byte) (now, rest []byte) {
	n := min(m.left, int64(len(b)))
	m.left -= n
	return b[:n], b[n:]
}

// line returns the next whole line without its end.
func (m *message) line(b []byte) (line, rest []byte, whole bool, err error) {
	n := bytes.IndexByte(b, '\n')
	if n < 0 {
		m.text = append(m.text, b...)
	} else {
		line, rest, whole = b[:n], b[n+1:], true
		if len(m.text) > 0 {
			m.text = append(m.text, line...)
			line = m.text
		}
		m.text = m.text[:0] // line still holds its bytes
	}
	if len(m.text)+len(line) > maxLine {
		return nil, nil, false, fmt.Errorf("malformed chunked encoding: a line of more than %d bytes", maxLine)
	}
	// A lone LF, or a CR elsewhere, is where readers disagree (RFC 9112, erratum
	// 7633): it is refused, as net/http does.
	if whole && (len(line) == 0 || bytes.IndexByte(line, '\r') != len(line)-1) {
		return nil, nil, false, errors.New("malformed chunked encoding: a line that does not end with CR and LF")
	}
	return bytes.TrimSuffix(line, []byte("\r")), rest, whole, nil
}

// size is the line before a chunk.
func (m *message) size(b []byte) ([]byte, error) {
	line, rest, whole, err := m.line(b)
	if err != nil || !whole {
		return nil, err
	}
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	var n int64
	for _, c := range digits {
		v := hex(c)
		if v < 0 || len(digits) > 15 {
			return nil, fmt.Errorf("malformed chunked encoding: %s is no size", strconv.Quote(string(line[:min(len(line), 40)])))
		}
		n = n<<4 | v
	}
	switch {
	case len(digits) == 0:
		return nil, errors.New("malformed chunked encoding: a chunk without a size")
	case n == 0:
		m.state = (*message).trailer
	default:
		m.left, m.state = n, (*message).chunk
	}
	return rest, nil
}

// hex is the value of a digit, -1 if it is none.
func hex(c byte) int64 {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int64(c|0x20-'a') + 10
	}
	return -1
}

func (m *message) chunk(b []byte) ([]byte, error) {
	b, rest := m.cut(b)
	m.give(b)
	if m.left == 0 {
		m.left, m.state = 2, (*message).gap
	}
	return rest, nil
}

// gap is the line end after a chunk.
func (m *message) gap(b []byte) ([]byte, error) {
	if b[0] != "\n\r"[m.left-1] {
		return nil, errors.New("malformed chunked encoding: no line end after a chunk")
	}
	if m.left--; m.left == 0 {
		m.state = (*message).size
	}
	return b[1:], nil
}

// trailer is read, checked and not told.
func (m *message) trailer(b []byte) ([]byte, error) {
	line, rest, whole, err := m.line(b)
	if err != nil || !whole {
		return nil, err
	}
	if m.tail = append(append(m.tail, line...), '\n'); len(m.tail) > maxHead {
		return nil, fmt.Errorf("a trailer of more than %d bytes", maxHead)
	}
	if m.ended = len(line) == 0; m.ended && len(m.tail) > 1 {
		if _, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(m.tail))).ReadMIMEHeader(); err != nil {
			m.ended = false
			return nil, fmt.Errorf("malformed trailer: %w", err)
		}
	}
	return rest, nil
}
