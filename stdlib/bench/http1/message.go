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
// any split. The zero message with a receiver is ready. What each piece of a
// body needs stands first.
type message struct {
	to    Receiver
	part  part
	began bool   // something of it came
	ended bool   // it is complete
	stop  bool   // the receiver gave it up
	extra bool   // something followed it
	keep  bool   // the server keeps the connection
	left  int64  // bytes of the body or the chunk that are still to come
	text  []byte // the head, or the line, so far
	tail  []byte // the trailer so far
}

// part is what of an answer comes next.
type part uint8

const (
	head    part = iota
	open         // a body that ends with the connection
	body         // one of a known length
	size         // the line before a chunk
	chunk        // what is left of it
	gap          // the line end after it
	trailer      // after the last one
)

// reusable says whether the connection may carry another answer.
func (m *message) reusable() bool { return m.ended && m.keep && !m.extra && !m.stop }

// over says whether nothing more is to be read.
func (m *message) over() bool { return m.ended || m.stop }

// feed takes the next bytes.
func (m *message) feed(b []byte) (err error) {
	m.began = true
	for len(b) > 0 && err == nil && !m.over() {
		if m.part == size && len(m.text) == 0 {
			if data, rest := wholeChunk(b); data != nil {
				m.give(data)
				b = rest
				continue
			}
		}
		b, err = m.step(b)
	}
	m.extra = len(b) > 0
	return err
}

// wholeChunk cuts off a chunk that came in one piece and has nothing but its
// size before it, as almost all of a stream do; nil for any other.
func wholeChunk(b []byte) (data, rest []byte) {
	n, i := 0, 0
	for ; i < min(len(b), 7); i++ {
		v := hex(b[i])
		if v < 0 {
			break
		}
		n = n<<4 | int(v)
	}
	end := i + 2 + n
	if n == 0 || len(b) < end+2 || b[i] != '\r' || b[i+1] != '\n' || b[end] != '\r' || b[end+1] != '\n' {
		return nil, nil
	}
	return b[i+2 : end], b[end+2:]
}

// step takes bytes of what comes next, in any split.
func (m *message) step(b []byte) (rest []byte, err error) {
	switch m.part {
	case head:
		return m.readHead(b)
	case open:
		m.give(b)
		return nil, nil
	case body:
		b, rest = m.cut(b)
		m.give(b)
		m.ended = m.left == 0
		return rest, nil
	case size:
		return m.readSize(b)
	case chunk:
		b, rest = m.cut(b)
		m.give(b)
		if m.left == 0 {
			m.left, m.part = 2, gap
		}
		return rest, nil
	case gap:
		return m.readGap(b)
	}
	return m.readTrailer(b)
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

func (m *message) readHead(b []byte) ([]byte, error) {
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
		m.part = size
	case resp.ContentLength >= 0:
		m.left, m.part = resp.ContentLength, body
		m.ended = m.left == 0
	default:
		m.left, m.part, m.keep = untilEnd, open, false
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

func (m *message) readSize(b []byte) ([]byte, error) {
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
		m.part = trailer
	default:
		m.left, m.part = n, chunk
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

func (m *message) readGap(b []byte) ([]byte, error) {
	if b[0] != "\n\r"[m.left-1] {
		return nil, errors.New("malformed chunked encoding: no line end after a chunk")
	}
	if m.left--; m.left == 0 {
		m.part = size
	}
	return b[1:], nil
}

// readTrailer reads and checks the trailer, which is not told.
func (m *message) readTrailer(b []byte) ([]byte, error) {
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
