package index

import (
	"encoding/binary"
	"errors"

	"github.com/sotabuild/sotabuild/engine/key"
)

// Head is what a record's payload starts with, so that opening a store decodes
// no record; all other fields follow it:
//
//	u64 serial, key, u16 length of the node, node, u16 length of the kind, kind
type Head struct {
	Serial     uint64
	Key        key.Key
	Node, Kind []byte
}

// HeadFixed is how many bytes of a head come before its node.
const HeadFixed = 8 + len(key.Key{})

// ErrHead says that a payload ends within its head.
var ErrHead = errors.New("its head is cut short")

// AppendHead appends a head. Node and kind have at most 65,535 bytes.
func AppendHead(b []byte, serial uint64, k key.Key, node, kind string) []byte {
	b = append(SerialBytes(b, serial), k[:]...)
	for _, s := range [...]string{node, kind} {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	return b
}

// ParseHead returns a payload's head, in its memory, and what follows it.
func ParseHead(b []byte) (h Head, rest []byte, ok bool) {
	if len(b) < HeadFixed {
		return h, nil, false
	}
	h.Serial = binary.LittleEndian.Uint64(b)
	copy(h.Key[:], b[8:])
	b = b[HeadFixed:]
	for _, s := range [...]*[]byte{&h.Node, &h.Kind} {
		if len(b) < 2 || len(b) < 2+int(binary.LittleEndian.Uint16(b)) {
			return h, nil, false
		}
		n := int(binary.LittleEndian.Uint16(b))
		*s, b = b[2:2+n], b[2+n:]
	}
	return h, b, true
}

// SerialBytes appends the payload of FrameSerial and FrameLost.
func SerialBytes(b []byte, serial uint64) []byte { return binary.LittleEndian.AppendUint64(b, serial) }
