package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// interrupts turns SIGINT, SIGTERM and the end of the terminal into the scheduler's
// three steps. Output that nobody reads any more is at most the first of them: a
// Ctrl-C ends the other side of a pipe at once, and what runs here is to finish.
func interrupts() (<-chan struct{}, func()) {
	sig, unread := make(chan os.Signal, 3), make(chan os.Signal, 1)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(sig, syscall.SIGHUP)
	}
	signal.Notify(unread, syscall.SIGPIPE) // to the end of the process: its last words may reach nobody
	out := make(chan struct{})
	end := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			pipe := unread
			if !first {
				pipe = nil
			}
			select {
			case <-sig:
			case <-pipe:
			case <-end:
				return
			}
			select {
			case out <- struct{}{}:
			case <-end:
				return
			}
		}
	}()
	return out, func() { signal.Stop(sig); close(end) }
}

// preparing does what comes before any task: the first interrupt ends it, and
// nothing was started.
func preparing(ctx context.Context, interrupt <-chan struct{}, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	interrupted := false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-interrupt:
			interrupted = true
			cancel()
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	cancel()
	<-ended
	if interrupted {
		return fail(codeInterrupted, errors.New("interrupted before anything was started"), "`sotabuild apply` begins again")
	}
	return err
}

// interruptibly does something that makes files or images: a Ctrl-C ends it, so
// that what is half made is removed, and a second one the process.
func interruptibly(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err := do(ctx)
	if ctx.Err() != nil && err != nil {
		return fail(codeInterrupted, errors.New("interrupted; what was half made is removed"))
	}
	return err
}
