package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// word is what Slurm says of a job.
type word struct {
	state  string // "" when the controller does not know the job
	reason string
	since  time.Time // when we first heard it
	times  int       // how often in a row
}

// goesOn are the states in which a job has not ended. Whatever else Slurm says
// is an end, except words that it may have in a newer version: those are
// unknown to both lists, and the job is waited for.
var goesOn = []string{
	"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING",
	"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "POWER_UP_NODE", "EXPEDITING",
}

var ended = []string{
	"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED",
	"LAUNCH_FAILED", "RECONFIG_FAIL",
}

func (w word) known() bool { return w.state != "" }
func (w word) over() bool  { return slices.Contains(ended, w.state) }

// never are the reasons for which a job waits for good.
var never = []string{
	"PartitionTimeLimit", "PartitionConfig", "DependencyNeverSatisfied", "BadConstraints", "InvalidAccount", "InvalidQOS", "AccountNotAllowed",
	"QOSNotAllowed",
}

// hopeless reports whether the job waits for what never comes.
func (w word) hopeless() bool { return w.state == "PENDING" && slices.Contains(never, w.reason) }

// queue asks for all jobs that somebody waits for at once, and rarely: the ends
// of tasks are seen by their files, Slurm's word is needed for the others. The
// pauses grow while nothing changes, and further while no controller answers.
type queue struct {
	client client
	most   time.Duration // longest pause
	mu     sync.Mutex    // guards what follows
	jobs   map[string]int
	words  map[string]word
	next   time.Time
	pause  time.Duration
	busy   bool
}

const (
	firstPause = time.Second
	// awayPause bounds the pauses while no controller answers.
	awayPause = time.Minute
)

func (q *queue) join(job string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.jobs == nil {
		q.jobs, q.words = map[string]int{}, map[string]word{}
	}
	q.jobs[job]++
	q.pause = firstPause
	if soon := time.Now().Add(firstPause); len(q.jobs) == 1 || q.next.After(soon) {
		q.next = soon
	}
}

func (q *queue) leave(job string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.jobs[job]--; q.jobs[job] == 0 {
		delete(q.jobs, job)
		delete(q.words, job)
	}
}

// word is the last that was heard of a job; false when nothing was yet.
func (q *queue) word(job string) (word, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, ok := q.words[job]
	return w, ok
}

// due reports that it is time to ask. Who got true has to poll.
func (q *queue) due() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy || time.Now().Before(q.next) {
		return false
	}
	q.busy = true
	return true
}

// poll asks for all jobs.
func (q *queue) poll(ctx context.Context) {
	q.mu.Lock()
	ids := slices.Sorted(maps.Keys(q.jobs))
	q.mu.Unlock()
	lines, err := q.client.list(ctx, ids)

	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	now := time.Now()
	if err != nil {
		if ctx.Err() == nil {
			q.pause = min(2*q.pause, max(awayPause, q.most))
		}
		q.next = now.Add(q.pause)
		return
	}
	q.pause = min(q.pause*3/2, q.most)
	for _, id := range ids {
		if q.jobs[id] == 0 {
			continue // nobody waits for it any more
		}
		old, new := q.words[id], lines[id]
		new.since, new.times = now, 1
		if old.times > 0 && old.state == new.state && old.reason == new.reason {
			new.since, new.times = old.since, old.times+1
		} else if old.times > 0 || new.over() {
			q.pause = firstPause
		}
		if !new.known() || new.over() {
			q.pause = firstPause // it is about to be decided
		}
		q.words[id] = new
	}
	q.next = now.Add(q.pause)
}

// list returns Slurm's word on jobs. Those that it does not know are absent.
func (c client) list(ctx context.Context, ids []string) (map[string]word, error) {
	out := map[string]word{}
	if len(ids) == 0 {
		return out, nil
	}
	text, err := c.run(ctx, "", "squeue", "--noheader", "--states=all", "--format=%i|%T|%r", "--jobs="+strings.Join(ids, ","))
	if err != nil && !unknownJob.MatchString(err.Error()) {
		return nil, err // of a single unknown job it says so, of one among others nothing
	}
	for line := range strings.Lines(text) {
		if f := strings.SplitN(strings.TrimSpace(line), "|", 3); len(f) == 3 && f[1] != "" {
			out[f[0]] = word{state: f[1], reason: f[2]}
		}
	}
	return out, nil
}

// found is a job with its name, comment and working folder.
type found struct {
	job, state, name, comment, dir string
}

// named returns our user's jobs of a name, all of them for "".
func (c client) named(ctx context.Context, name string, uid int) ([]found, error) {
	args := []string{"--noheader", "--states=all", fmt.Sprintf("--user=%d", uid), "--format=%i|%T|%j|%k|%Z"}
	if name != "" {
		args = append(args, "--name="+name)
	}
	text, err := c.run(ctx, "", "squeue", args...)
	if err != nil {
		return nil, err
	}
	var out []found
	for line := range strings.Lines(text) {
		// The folder comes last: it may hold the separator.
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 5); len(f) == 5 && (name == "" || f[2] == name) {
			out = append(out, found{f[0], f[1], f[2], f[3], f[4]})
		}
	}
	return out, nil
}

// details are what Slurm keeps of one job.
type details struct {
	word
	exit, node string
}

var (
	showState  = lazyregexp.New(`(?:^| )JobState=(\S+)`)
	showReason = lazyregexp.New(`(?:^| )Reason=(\S+)`)
	showExit   = lazyregexp.New(` ExitCode=(\d+:\d+)`)
	showNode   = lazyregexp.New(` NodeList=(\S+)`)
	killWait   = lazyregexp.New(`(?m)^KillWait\s*=\s*(\d+)`)
)

// show asks for one job. A job that is not known has no state.
func (c client) show(ctx context.Context, job string) (details, error) {
	text, err := c.run(ctx, "", "scontrol", "--oneliner", "show", "job", job)
	var no refusedError
	if errors.As(err, &no) && unknownJob.MatchString(no.text) {
		return details{}, nil
	}
	if err != nil {
		return details{}, err
	}
	first := func(form *lazyregexp.Regexp) string {
		if m := form.FindStringSubmatch(text); m != nil {
			return m[1]
		}
		return ""
	}
	d := details{word{state: first(showState), reason: first(showReason)}, first(showExit), first(showNode)}
	if d.state == "" {
		return d, fmt.Errorf("reading what scontrol says of job %s: no JobState in %q", job, text[:min(len(text), 200)])
	}
	return d, nil
}
