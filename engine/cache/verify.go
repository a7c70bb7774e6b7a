package cache

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sotabuild/sotabuild/engine/key"
)

// Report is what Verify or Repair found.
type Report struct {
	Records int   `json:"records"`
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"` // of the objects
	// Defects are sentences, those of the journal first, then those of objects
	// and of records without their outputs.
	Defects []string `json:"defects"`
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
	rep, err := s.verify()
	return rep, errors.Join(err, s.Close())
}

// Repair is Verify under the writer's lock that also mends: broken objects go
// to quarantine, and the journal is written anew without its damaged stretches
// if it has any. What was lost is a miss, and runs again.
func Repair(dir string, o Options) (Report, error) {
	l, err := OpenLocal(dir, o)
	if err != nil {
		return Report{}, err
	}
	damaged := len(l.Defects()) > 0
	l.Records() // finds entries that cannot be read
	damaged = damaged || len(l.Defects()) > 0
	rep, err := l.verify()
	if damaged && err == nil {
		err = l.Rewrite(func(*Record) bool { return true })
	}
	return rep, errors.Join(err, l.Close())
}

func (s *Snapshot) verify() (Report, error) {
	var rep Report
	err := s.Objects(func(d key.Digest, fi fs.FileInfo) error {
		rep.Objects++
		rep.Bytes += fi.Size()
		// A broken object is a defect by now; any other error means that it
		// could not be read.
		if err := s.objects.Verify(d); err != nil && !errors.Is(err, ErrMissing) {
			return fmt.Errorf("verifying object %s: %w", d, err)
		}
		return nil
	})
	for _, r := range s.Records() {
		rep.Records++
		for _, o := range r.Outputs {
			if !s.objects.Has(o.Digest, o.Size) {
				s.defects.Add("record %d of %s lacks its output %q", r.Serial, r.Node, o.Name)
			}
		}
	}
	rep.Defects = s.Defects()
	return rep, err
}
