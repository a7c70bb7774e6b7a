package show

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/cache/archive"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors/hoststate"
	"github.com/sotabuild/sotabuild/stdlib/campaign/loops"
	"github.com/sotabuild/sotabuild/stdlib/campaign/prepare"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/report/rundir"
)

// maxLog is how much of a server's log goes into the run directory; the whole
// log stays in the task's folder.
const maxLog = 1 << 20

// WriteRun makes the run directory show the view: the files that follow from
// it, the help texts, request logs and server logs that it points to, and the
// records behind it, which another store can import (archive). It
// returns the directory (R027–R029). The owner is the campaign by its name and
// model, not the store: a store that is deleted or left behind on another
// machine does not orphan the directory.
func WriteRun(v report.View, p *prepare.Prepared, r cache.Reader, tasks string, now time.Time) (string, error) {
	dir, err := RunDir(p.Run, now)
	if err != nil {
		return "", err
	}
	files, err := rundir.Files(v)
	if err != nil {
		return "", err
	}
	for _, s := range v.Sides {
		for _, h := range s.Helps {
			if files[h.Path], err = r.Bytes(h.Digest); err != nil {
				return "", fmt.Errorf("reading help of %s: %w", s.Name, err)
			}
		}
	}
	j := newJoiner(p, r, now)
	if err := j.artefacts(v, tasks, files); err != nil {
		return "", err
	}
	lives, err := j.lives(v, tasks)
	if err != nil {
		return "", err
	}
	whole, looked, err := hoststate.Last(HostFolder(filepath.Dir(tasks)))
	if err != nil {
		return "", err
	}
	files[stateFile] = stateText(lives)
	if looked {
		files[stateFile] = append(files[stateFile], applyText(whole)...)
	}
	beside, err := loops.Records(p, r, now)
	if err != nil {
		return "", err
	}
	if err := archive.Files(p.Campaign.Name, append(j.samples(), beside...), r, files); err != nil {
		return "", err
	}
	if files[PageFile], err = pageOf(v, files); err != nil {
		return "", err
	}
	_, err = rundir.Write(dir, ownerOf(p.Run), files)
	return dir, err
}

// RunDir is the campaign's run directory, or the name of the one that it would
// get.
func RunDir(r prepare.Run, now time.Time) (string, error) {
	return rundir.Locate(r.Artifacts, now, r.Model, ownerOf(r))
}

func ownerOf(r prepare.Run) rundir.Owner {
	return rundir.Owner{Campaign: r.Campaign, ID: key.Sum([]byte(r.Campaign + "\x00" + r.Model)).Short()}
}

// samples are all records of the keys that the campaign's nodes have now.
func (j *joiner) samples() []*cache.Record {
	var out []*cache.Record
	for _, n := range j.plan.Nodes {
		if !n.Key.IsZero() {
			out = append(out, j.r.Lookup(n.Key)...)
		}
	}
	return out
}

// artefacts collects what the cells point to.
func (j *joiner) artefacts(v report.View, tasks string, files map[string][]byte) error {
	if err := j.requests(v, files); err != nil {
		return err
	}
	digests := j.measured()
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			rec := digests[c.Digest.String()]
			if rec == nil {
				continue
			}
			if c.Artifacts.ServerLog != "" {
				b, err := tail(filepath.Join(tasks, rec.Origin.Task, "logs", "server.0.log"))
				if err != nil {
					return err
				}
				files[c.Artifacts.ServerLog] = b
			}
		}
	}
	return nil
}

// measured are the records of all cells by the digest of the row that counts.
func (j *joiner) measured() map[string]*cache.Record {
	out := map[string]*cache.Record{}
	for _, c := range j.p.Declared.Cells {
		if c.Skip != "" {
			continue
		}
		rec, counts := j.record(c.Addr), j.record(c.Row)
		if rec != nil && counts != nil {
			out[counts.Output("row").String()] = rec
		}
	}
	return out
}

// requests collects the request logs of the cells, and what was seen beside
// them.
func (j *joiner) requests(v report.View, files map[string][]byte) error {
	records := j.measured()
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			rec := records[c.Digest.String()]
			if rec == nil || c.Artifacts.RawResult == "" {
				continue
			}
			for output, path := range map[string]string{"requests": c.Artifacts.RawResult, "seen": seenPath(c.Artifacts.RawResult)} {
				b, err := j.r.Bytes(rec.Output(output))
				if err != nil {
					return fmt.Errorf("reading %s of %s: %w", output, rec.Node, err)
				}
				files[path] = b
			}
			if len(c.Row.Parts) > 0 {
				b, err := json.MarshalIndent(c.Row.Parts, "", "  ")
				if err != nil {
					return fmt.Errorf("writing the parts of %s: %w", rec.Node, err)
				}
				files[strings.TrimSuffix(c.Artifacts.RawResult, ".jsonl")+".parts.json"] = append(b, '\n')
			}
		}
	}
	return nil
}

// seenPath lies beside the request log.
func seenPath(log string) string { return strings.TrimSuffix(log, ".jsonl") + ".server.json" }

// tail is the end of a log, with a line that says so where it was cut; a log
// that is gone is a line that says that.
func tail(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []byte("(the log is no longer there)\n"), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading server log: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading server log: %w", err)
	}
	if st.Size() <= maxLog {
		return io.ReadAll(f)
	}
	if _, err := f.Seek(-maxLog, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("reading server log: %w", err)
	}
	b, err := io.ReadAll(f)
	return append(fmt.Appendf(nil, "(the last %d of %d bytes)\n", maxLog, st.Size()), b...), err
}
