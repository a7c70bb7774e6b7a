package cache

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sotabuild/sotabuild/engine/cache/wire"
	"github.com/sotabuild/sotabuild/engine/key"
)

// A record's payload starts with what the index needs, so that opening a store
// decodes no record; the body holds all other fields, in the order below:
//
//	u64 serial, key, u16 length of the node, node, u16 length of the kind, kind, body
type recordHead struct {
	serial     uint64
	key        key.Key
	node, kind []byte
}

const recordFixed = 8 + len(key.Key{})

func encodeRecord(r *Record) []byte {
	b := wire.Buffer(binary.LittleEndian.AppendUint64(nil, r.Serial))
	b.Sum(r.Key)
	for _, s := range [...]string{r.Node, r.Kind} {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	b.Uint(uint64(r.Version))
	b.Text(r.Manifest)
	b.Text(string(r.Outcome.State))
	b.Text(r.Outcome.Class)
	b.Text(r.Outcome.Reason)
	b.Bool(r.Outcome.Keep)
	b.Uint(uint64(len(r.Outputs)))
	for _, o := range r.Outputs {
		b.Text(o.Name)
		b.Sum(o.Digest)
		b.Int(o.Size)
	}
	b.Time(r.Time.Started)
	b.Float(r.Time.Seconds)
	for _, s := range [...]string{r.Origin.Host, r.Origin.Tool, r.Origin.Task, r.Origin.Run} {
		b.Text(s)
	}
	b.Int(int64(r.Origin.Attempt))
	b.Uint(uint64(len(r.Observed)))
	for _, o := range r.Observed {
		b.Text(o.Name)
		b.Text(o.Value)
	}
	b.Uint(uint64(len(r.Warnings)))
	for _, w := range r.Warnings {
		b.Text(w)
	}
	return b
}

func decodeHead(b []byte) (h recordHead, rest []byte, ok bool) {
	if len(b) < recordFixed {
		return h, nil, false
	}
	h.serial = binary.LittleEndian.Uint64(b)
	copy(h.key[:], b[8:])
	b = b[recordFixed:]
	for _, s := range [...]*[]byte{&h.node, &h.kind} {
		if len(b) < 2 || len(b) < 2+int(binary.LittleEndian.Uint16(b)) {
			return h, nil, false
		}
		n := int(binary.LittleEndian.Uint16(b))
		*s, b = b[2:2+n], b[2+n:]
	}
	return h, b, true
}

func decodeRecord(payload []byte) (*Record, error) {
	h, body, ok := decodeHead(payload)
	if !ok {
		return nil, errors.New("its head is cut short")
	}
	w := wire.NewReader(body)
	one := new(struct { // most records have one output: one piece of memory for both
		Record
		output [1]Output
	})
	r := &one.Record
	*r = Record{Version: int(w.Uint()), Serial: h.serial, Key: h.key, Node: string(h.node), Kind: string(h.kind)}
	if r.Version != RecordVersion {
		return nil, fmt.Errorf("it has version %d, this build knows %d", r.Version, RecordVersion)
	}
	r.Manifest = w.Text()
	r.Outcome = Outcome{State: State(w.Text()), Class: w.Text(), Reason: w.Text(), Keep: w.Bool()}
	if n := w.Count(1 + len(key.Digest{}) + 1); n > 0 {
		if r.Outputs = one.output[:]; n > 1 {
			r.Outputs = make([]Output, n)
		}
		for i := range r.Outputs {
			r.Outputs[i] = Output{Name: w.Text(), Digest: w.Sum(), Size: w.Int()}
		}
	}
	r.Time = Span{Started: w.Time(), Seconds: w.Float()}
	r.Origin = Origin{Host: w.Text(), Tool: w.Text(), Task: w.Text(), Run: w.Text(), Attempt: int(w.Int())}
	for range w.Count(2) {
		r.Observed = append(r.Observed, Observed{Name: w.Text(), Value: w.Text()})
	}
	for range w.Count(1) {
		r.Warnings = append(r.Warnings, w.Text())
	}
	return r, w.End()
}
