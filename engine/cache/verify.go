package cache

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/engine/key"
)

// Report is what Verify found.
type Report struct {
	Records int
	Objects int
	Bytes   int64 // of the objects
	// Defects are sentences, those of the journal first, then those of objects
	// and of records without their outputs.
	Defects []string
}

// Verify reads everything in a store again and changes nothing: every record
// is parsed, every object hashed, every record's outputs looked for. It takes
// no lock. The error says that it could not look; what it found wrong stands in
// the report.
func Verify(dir string) (Report, error) {
	s, err := OpenReader(dir)
	if err != nil {
		return Report{}, err
	}
	var rep Report
	err = s.verifyObjects(&rep)
	s.verifyRecords(&rep)
	rep.Defects = s.Defects()
	return rep, errors.Join(err, s.Close())
}

func (s *Snapshot) verifyObjects(rep *Report) error {
	root := filepath.Join(s.dir, "cas")
	shards, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("verifying store: %w", err)
	}
	for _, shard := range shards {
		files, err := os.ReadDir(filepath.Join(root, shard.Name()))
		if err != nil {
			return fmt.Errorf("verifying store: %w", err)
		}
		for _, f := range files {
			if err := s.verifyObject(rep, shard.Name(), f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Snapshot) verifyObject(rep *Report, shard string, f fs.DirEntry) error {
	var d key.Digest
	b, err := hex.DecodeString(shard + f.Name())
	if err != nil || len(shard) != 2 || len(b) != len(d) {
		s.defects.add("cas/%s/%s has no object's name", shard, f.Name())
		return nil
	}
	copy(d[:], b)
	fi, err := f.Info()
	if err != nil {
		return fmt.Errorf("verifying object %s: %w", d, err)
	}
	rep.Objects++
	rep.Bytes += fi.Size()
	// A broken object is a defect by now; any other error means that it could
	// not be read.
	if err := s.objects.Verify(d); err != nil && !errors.Is(err, ErrMissing) {
		return fmt.Errorf("verifying object %s: %w", d, err)
	}
	return nil
}

func (s *Snapshot) verifyRecords(rep *Report) {
	s.mu.Lock()
	list := make([]*indexEntry, len(s.index.entries))
	for i := range list {
		list[i] = &s.index.entries[i]
	}
	s.mu.Unlock()
	for _, r := range s.read(list) {
		rep.Records++
		for _, o := range r.Outputs {
			if !s.objects.Has(o.Digest, o.Size) {
				s.defects.add("record %d of %s lacks its output %q", r.Serial, r.Node, o.Name)
			}
		}
	}
}
