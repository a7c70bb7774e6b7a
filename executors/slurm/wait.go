package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/slurm/job"
)

// Wait blocks until the task has ended; then nothing of it is left that its job
// could end. A controller that does not answer is waited for.
func (e *Executor) Wait(ctx context.Context, h executors.Handle) (executors.Outcome, error) {
	p, s, err := open(h)
	if err != nil {
		return executors.Outcome{}, err
	}
	if s.Outcome != nil {
		return *s.Outcome, nil
	}
	if s.Job == "" {
		return executors.Outcome{}, fmt.Errorf("waiting for task %s: it was never submitted to the end; start it again", h.Task)
	}
	e.queue.join(s.Job)
	defer func() { e.queue.leave(s.Job) }()
	// The question to Slurm does not hold up the look at the files.
	asking, done := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer done()
	pulse := pulse{folder: p.folder()}
	for tick := 25 * time.Millisecond; ; tick = min(tick*5/4, time.Second) {
		if end, err := job.ReadEnd(p.folder()); err == nil {
			return e.conclude(ctx, p, h, &end)
		} else if !errors.Is(err, os.ErrNotExist) {
			return executors.Outcome{}, err
		}
		if e.queue.due() {
			all.Go(func() { e.queue.poll(asking) })
		}
		if w, ok := e.queue.word(s.Job); ok {
			out, err := e.judge(ctx, p, &s, w, &pulse)
			if err != nil {
				return executors.Outcome{}, err
			}
			if out != nil {
				return e.keep(ctx, p, *out)
			}
		}
		if !pause(ctx, tick) {
			return executors.Outcome{}, ctx.Err()
		}
	}
}

// judge decides about a task without a record by what Slurm says of its job.
// Nil means that it is too early. It changes the job in s when another one runs
// the task.
func (e *Executor) judge(ctx context.Context, p place, s *state, w word, pulse *pulse) (*executors.Outcome, error) {
	heard := time.Since(w.since)
	switch {
	case w.hopeless():
		return e.giveUp(ctx, p, s, w)
	case w.known() && (!w.over() || heard < e.FileGrace):
		return nil, nil
	case !w.known() && (heard < e.FileGrace || w.times < 2):
		return nil, nil
	}
	// Whoever makes the folder decides: from here on nobody begins.
	never, err := job.Claim(p.folder())
	if err != nil {
		return nil, fmt.Errorf("deciding about task %s: %w", s.Task, err)
	}
	if never {
		return e.neverBegan(ctx, p, s, w)
	}
	begin, err := job.ReadBegin(p.folder())
	if err == nil && begin.Job != s.Job {
		// A controller that forgot, or an sbatch that failed too late, made two
		// jobs of it, and the other one runs it.
		e.queue.join(begin.Job)
		e.queue.leave(s.Job)
		s.Job = begin.Job
		return nil, p.update(ctx, func(now *state) error { now.Job = begin.Job; return nil })
	}
	return e.cutOff(ctx, p, s, w, pulse)
}

// pulse watches the signs of life of a job. It is owned by one goroutine.
type pulse struct {
	folder string
	last   time.Time
	at     time.Time // when the last one was new to us
}

// silent is how long nothing was heard. The first look counts as a sign.
func (p *pulse) silent() time.Duration {
	if beat := job.Beat(p.folder); p.at.IsZero() || !beat.Equal(p.last) {
		p.last, p.at = beat, time.Now()
	}
	return time.Since(p.at)
}

// giveUp cancels a job that would wait for good.
func (e *Executor) giveUp(ctx context.Context, p place, s *state, w word) (*executors.Outcome, error) {
	never, err := job.Claim(p.folder())
	if err != nil || !never {
		return nil, err // it has begun meanwhile
	}
	if _, err := e.client.run(ctx, "", "scancel", s.Job); err != nil {
		return nil, fmt.Errorf("cancelling job %s, which would wait for good: %w", s.Job, err)
	}
	say := "change the executor's options"
	if w.reason == "PartitionTimeLimit" || w.reason == "PartitionConfig" {
		say = "it asks for more than its partition gives, most often time; write options = { time = \"…\" } or another partition"
	}
	return &executors.Outcome{Reason: executors.NotStarted, Detail: fmt.Sprintf("job %s would wait for good (%s): %s", s.Job, w.reason, say)}, job.DropEnv(p.folder())
}

// neverBegan is the outcome of a task whose job is over and did not begin it.
func (e *Executor) neverBegan(ctx context.Context, p place, s *state, w word) (*executors.Outcome, error) {
	if err := job.DropEnv(p.folder()); err != nil {
		return nil, err
	}
	out := &executors.Outcome{Reason: executors.NotStarted}
	if !w.known() {
		out.Detail = fmt.Sprintf("Slurm has forgotten job %s, which had not begun", s.Job)
		return out, nil
	}
	d, err := e.client.show(ctx, s.Job)
	if err != nil || !d.known() {
		d = details{word: w} // what squeue said is enough
	}
	code, _, _ := strings.Cut(d.exit, ":")
	text := said(p)
	out.Detail = fmt.Sprintf("job %s: %s (%s, exit %s, node %s) before it began", s.Job, d.state, d.reason, d.exit, d.node)
	switch {
	case w.state == "CANCELLED" && d.reason != "DependencyNeverSatisfied":
		out.Reason = executors.Stopped
	case code == fmt.Sprint(job.CodeBlind):
		out.Detail = fmt.Sprintf("node %s does not see %s; the campaign's folder must be on a file system that the engine's host and the nodes share", d.node, p)
		text = "" // it says the same
	case code == fmt.Sprint(job.CodeBroken):
		out.Detail = fmt.Sprintf("node %s cannot write into %s", d.node, p)
	case code == "127" || code == "126":
		out.Detail = fmt.Sprintf("node %s cannot execute %s; put sotabuild on a file system that the engine's host and the nodes share", d.node, e.Self)
	case d.exit == "0:53":
		out.Detail += "; Slurm could not start the script: is the campaign's folder on a file system that the nodes share?"
	}
	if text != "" {
		out.Detail += "; it said: " + text
	}
	return out, nil
}

// said returns the end of what Slurm and the job's program printed.
func said(p place) string {
	text, err := os.ReadFile(filepath.Join(p.folder(), job.OutFile))
	if err != nil {
		return "" // the job did not come so far
	}
	line := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	return line[max(0, len(line)-500):]
}

// cutOff is the outcome of a task whose job is over and left no record. Where
// Slurm killed it, Slurm's word says why. Where Slurm does not know what became
// of it, it may be running still: nil as long as it shows signs of life.
func (e *Executor) cutOff(ctx context.Context, p place, s *state, w word, pulse *pulse) (*executors.Outcome, error) {
	d := details{word: w} // what squeue said is enough
	if w.known() {
		shown, err := e.client.show(ctx, s.Job)
		if err == nil && shown.known() {
			d = shown
		}
	}
	out := slurmsWord(d)
	if out.Reason == executors.Lost {
		if pulse.silent() < e.LostGrace {
			return nil, nil
		}
		// If it lives on a node that is cut off, it ends when it can read this.
		if err := job.WriteStop(p.folder(), job.Stop{}); err != nil {
			return nil, fmt.Errorf("giving task %s up: %w", s.Task, err)
		}
	}
	if !w.known() {
		out.Detail = "Slurm has forgotten it"
	}
	out.Detail = fmt.Sprintf("job %s: %s; it left no record", s.Job, out.Detail)
	if out.Reason == executors.Lost {
		out.Detail += fmt.Sprintf(", and gave no sign of life for %s", e.LostGrace)
	}
	if text := said(p); text != "" {
		out.Detail += "; it said: " + text
	}
	return &out, nil
}

// slurmsWord turns a state of Slurm into an outcome.
func slurmsWord(d details) executors.Outcome {
	out := executors.Outcome{Reason: executors.Lost, Detail: fmt.Sprintf("Slurm says %s (%s, exit %s)", d.state, d.reason, d.exit)}
	switch d.state {
	case "TIMEOUT", "DEADLINE":
		out.Reason = executors.TimedOut
		out.Detail += ": its time limit; write a longer time in the executor's options"
	case "OUT_OF_MEMORY":
		out.Reason = executors.OOM
		out.Detail += ": write a larger mem in the executor's options"
	case "CANCELLED", "REVOKED":
		out.Reason = executors.Stopped
		out.Detail += ": somebody cancelled it"
	case "PREEMPTED":
		out.Reason = executors.Preempted
		out.Detail += ": a job of a higher priority took its place"
	case "NODE_FAIL", "BOOT_FAIL":
		out.Detail += fmt.Sprintf(": node %s is lost", d.node)
	case "FAILED":
		// A code without a signal is that of a second run of the job, which did
		// not begin, or of a program of ours that broke.
		var code, number int
		if n, _ := fmt.Sscanf(d.exit, "%d:%d", &code, &number); n == 2 && number > 0 {
			out.Reason, out.Signal = executors.Signaled, signalName(number)
		}
	}
	return out
}

// conclude turns the job's record into the task's outcome. Where a TERM or a
// signal ended it and we did not ask for that, Slurm is asked who did.
func (e *Executor) conclude(ctx context.Context, p place, h executors.Handle, end *job.End) (executors.Outcome, error) {
	s, err := p.read()
	if err != nil {
		return executors.Outcome{}, err
	}
	out := end.Outcome
	foreign := end.Told || out.Reason == executors.Signaled
	if s.Asked == "" && foreign && (out.Reason == executors.Exited || out.Reason == executors.Signaled) {
		d, err := e.final(ctx, end.Job)
		if err != nil {
			return executors.Outcome{}, err
		}
		if end.Told && (d.state == "NODE_FAIL" || d.state == "BOOT_FAIL") {
			out.Detail = fmt.Sprintf("%s; %s", slurmsWord(d).Detail, ending(out))
			out.Reason, out.Code, out.Signal = executors.Preempted, 0, ""
		} else if w := slurmsWord(d); d.over() && w.Reason != executors.Lost && w.Reason != executors.Signaled {
			out.Reason, out.Code, out.Signal, out.Detail = w.Reason, 0, "", w.Detail
		} else if end.Told {
			out.Detail = fmt.Sprintf("somebody sent it a TERM; %s", ending(out))
			out.Reason, out.Code, out.Signal = executors.Stopped, 0, ""
		}
	}
	if len(end.Left) > 0 {
		out.Detail = strings.TrimSpace(out.Detail + "; left on node " + end.Node + ": " + strings.Join(end.Left, "; "))
	}
	return e.keep(ctx, p, out)
}

// ending says how a program ended.
func ending(o executors.Outcome) string {
	switch o.Reason {
	case executors.Exited:
		return fmt.Sprintf("exited %d", o.Code)
	case executors.Signaled:
		return "signaled " + o.Signal
	}
	return string(o.Reason)
}

// final waits for Slurm's last word on a job whose record is there: it comes a
// second or two later. A controller that does not answer is not waited for.
func (e *Executor) final(ctx context.Context, id string) (details, error) {
	for until := time.Now().Add(e.FileGrace); ; {
		d, err := e.client.show(ctx, id)
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
		if err != nil || !d.known() || d.over() || time.Now().After(until) {
			return d, nil // the record alone is enough for an outcome
		}
		if !pause(ctx, 300*time.Millisecond) {
			return d, ctx.Err()
		}
	}
}

// keep writes an outcome down, which stays the same from then on.
func (e *Executor) keep(ctx context.Context, p place, out executors.Outcome) (executors.Outcome, error) {
	err := p.update(ctx, func(s *state) error {
		if s.Outcome == nil {
			if s.Asked != "" && out.Reason != executors.NotStarted {
				if out.Reason != s.Asked {
					out.Detail = strings.TrimSpace(ending(out) + " " + out.Detail)
				}
				out.Reason, out.Code, out.Signal = s.Asked, 0, ""
			}
			if out.Started.IsZero() {
				out.Started = s.Submitted
			}
			if out.Ended.IsZero() {
				out.Ended = time.Now().UTC()
			}
			s.Outcome = &out
		}
		out = *s.Outcome
		return nil
	})
	return out, err
}

// Logs copies logs/runner.out until the task has ended, and to the size that
// its record names.
func (e *Executor) Logs(ctx context.Context, h executors.Handle, w io.Writer) error {
	p, _, err := open(h)
	if err != nil {
		return err
	}
	waiting, done := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { _, err := e.Wait(waiting, h); ended <- err }()
	over := false
	defer func() {
		done()
		if !over {
			<-ended
		}
	}()
	var copied int64
	var short time.Time
	for tick := 25 * time.Millisecond; ; tick = min(tick*5/4, time.Second) {
		n, err := copyFrom(w, p.log(), copied)
		if copied += n; err != nil {
			return fmt.Errorf("copying the log of task %s: %w", h.Task, err)
		}
		if over {
			end, err := job.ReadEnd(p.folder())
			if err != nil || copied >= end.LogBytes {
				return nil // without a record nobody knows how long it was
			}
			if short.IsZero() {
				short = time.Now()
			}
			if time.Since(short) > e.FileGrace {
				return fmt.Errorf("copying the log of task %s: %d of its %d bytes came from node %s within %s", h.Task, copied, end.LogBytes, end.Node, e.FileGrace)
			}
			tick = 100 * time.Millisecond
		}
		if n > 0 {
			tick = 25 * time.Millisecond
		}
		timer := time.NewTimer(tick)
		select {
		case err := <-ended:
			timer.Stop()
			ended, over = nil, true
			if err != nil {
				return err
			}
		case <-timer.C:
		}
	}
}

// copyFrom copies what a file holds from an offset on. It opens the file anew:
// then NFS shows what other hosts have written.
func copyFrom(w io.Writer, path string, at int64) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(w, f)
}
