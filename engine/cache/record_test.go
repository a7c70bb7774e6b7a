package cache

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/cache/journal"
	"github.com/sotabuild/sotabuild/engine/cache/wire"
	"github.com/sotabuild/sotabuild/engine/key"
)

// FuzzRecord reads what no checksum vouches for. It must end in a record that
// is written back the same, or in an error.
func FuzzRecord(f *testing.F) {
	r := named("x", Output{"row", key.Sum(nil), 0})
	if err := checkRecord(&r); err != nil {
		f.Fatal(err)
	}
	whole := encodeRecord(&r)
	f.Add(whole)
	f.Add(whole[:index.HeadFixed+1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		x := index.New(0)
		_ = x.Add(journal.Frame{Version: journal.Version, Kind: index.FrameRecord, Payload: b})
		_ = x.Add(journal.Frame{Version: journal.Version, Kind: index.FrameIntend, Payload: b})
		_ = x.Add(journal.Frame{Version: journal.Version, Kind: index.FrameSettle, Payload: b})
		r, err := decodeRecord(b)
		if err != nil || checkRecord(r) != nil {
			return
		}
		back, err := decodeRecord(encodeRecord(r))
		if err != nil {
			t.Fatalf("written, but not to be read: %v", err)
		}
		if diff := cmp.Diff(r, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestRecordsOfTheFormBefore: what was measured before Setup was recorded stays a
// result.
func TestRecordsOfTheFormBefore(t *testing.T) {
	want := named("x", Output{"row", key.Sum(nil), 0})
	must(t, checkRecord(&want))
	want.Time.Setup = 123.25
	b := encodeRecord(&want)
	var setup wire.Buffer
	setup.Float(want.Time.Setup)
	if bytes.Count(b, setup) != 1 {
		t.Fatal("the setup cannot be cut out")
	}
	before := bytes.Replace(b, setup, nil, 1)
	before[len(index.AppendHead(nil, want.Serial, want.Key, want.Node, want.Kind))] = RecordVersion - 1
	got, err := decodeRecord(before)
	if err != nil {
		t.Fatal(err)
	}
	want.Version, want.Time.Setup = RecordVersion-1, 0
	if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	r := named("x")
	must(t, checkRecord(&r))
	good := encodeRecord(&r)
	other := r
	other.Version = RecordVersion + 1
	newer := encodeRecord(&other)
	for want, b := range map[string][]byte{
		"cut short":     good[:index.HeadFixed+3],
		"version 4":     newer,
		"make no sense": good[:len(good)-2],
	} {
		if _, err := decodeRecord(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
