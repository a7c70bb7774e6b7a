package daemon

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

func frame(stream byte, text string) []byte {
	head := make([]byte, 8)
	head[0] = stream
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return append(head, text...)
}

func TestDemux(t *testing.T) {
	full := strings.Repeat("x", chunk)
	for name, c := range map[string]struct {
		in   [][]byte
		want string
	}{
		"lines":        {[][]byte{frame(1, "a\n"), frame(2, "b\n"), frame(1, "end")}, "a\nb\nend"},
		"lost newline": {[][]byte{frame(1, full), frame(1, "y"), frame(1, "z\n")}, full + "y\nz\n"},
		"kept newline": {[][]byte{frame(1, full), frame(1, full), frame(1, "y\n")}, full + full + "y\n"},
		"two streams":  {[][]byte{frame(1, full), frame(2, "no"), frame(1, "y")}, full + "noy\n"},
		"full line":    {[][]byte{frame(1, full[1:]+"\n"), frame(1, "y")}, full[1:] + "\ny"},
	} {
		var got bytes.Buffer
		if err := demux(&got, bytes.NewReader(bytes.Join(c.in, nil))); err != nil || got.String() != c.want {
			t.Errorf("%s: %d bytes, %v; want %d", name, got.Len(), err, len(c.want))
		}
	}
	cut := frame(1, "abc")
	if err := demux(&bytes.Buffer{}, bytes.NewReader(cut[:9])); err == nil {
		t.Error("a stream that was cut off is no error")
	}
	if err := demux(&bytes.Buffer{}, strings.NewReader("no multiplexed stream")); err == nil {
		t.Error("a raw stream was read as frames")
	}
}

func TestRestPassesEachByteOnce(t *testing.T) {
	var got bytes.Buffer
	r := &rest{w: &got}
	for _, reading := range []string{"abc", "abcdef", "ab", "abcdefgh"} {
		r.seen = 0
		for _, c := range []byte(reading) {
			if n, err := r.Write([]byte{c}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	if got.String() != "abcdefgh" {
		t.Errorf("passed on %q", got.String())
	}
}
