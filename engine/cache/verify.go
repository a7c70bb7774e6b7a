package cache

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Report is what Verify or Repair found.
type Report struct {
	Records int   `json:"records"`
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"` // of the objects
	// Lost counts the records that an earlier Repair found without an output.
	// They are history, and no defect: their nodes run again, or have.
	Lost int `json:"lost"`
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
	rep, _, err := s.verify()
	return rep, errors.Join(err, s.Close())
}

// Repair is Verify under the writer's lock that also mends: what is broken goes
// to quarantine, records without their outputs are noted as lost, and the
// journal is written anew without its damaged stretches, and without entries that
// this build cannot use, if it has any. What was lost is a miss, and runs again. A
// Verify after it finds no defect.
func Repair(dir string, o Options) (Report, error) {
	l, err := OpenLocal(dir, o)
	if err != nil {
		return Report{}, err
	}
	damaged := len(l.Defects()) > 0
	l.Records() // finds entries that cannot be read
	damaged = damaged || len(l.Defects()) > 0
	rep, lacking, err := l.verify()
	for _, serial := range lacking {
		if err == nil {
			err = l.note(serial)
		}
	}
	for _, at := range l.Unusable() {
		if err == nil {
			_, err = l.copied(at)
		}
	}
	if damaged && err == nil {
		err = l.Rewrite(func(*Record) bool { return true })
	}
	return rep, errors.Join(err, l.Close())
}

// note writes down that a record lacks an output.
func (l *Local) note(serial uint64) error {
	l.append.Lock()
	defer l.append.Unlock()
	if err := l.write(index.FrameLost, index.SerialBytes(nil, serial)); err != nil {
		return fmt.Errorf("noting what record %d lost: %w", serial, err)
	}
	return nil
}

// verify also lists the records that lack an output and are not known to.
func (s *Snapshot) verify() (rep Report, lacking []uint64, err error) {
	err = s.Objects(func(d key.Digest, fi fs.FileInfo) error {
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
		if s.lost(r.Serial) {
			if !s.complete(r) {
				rep.Lost++
			}
			continue
		}
		whole := true
		for _, o := range r.Outputs {
			if !s.objects.Has(o.Digest, o.Size) {
				s.defects.Add("record %d of %s lacks its output %q", r.Serial, r.Node, o.Name)
				whole = false
			}
		}
		if !whole {
			lacking = append(lacking, r.Serial)
		}
	}
	rep.Defects = s.Defects()
	return rep, lacking, err
}
