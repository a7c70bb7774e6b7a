package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// interrupts turns SIGINT and SIGTERM into the scheduler's three steps.
func interrupts() (<-chan struct{}, func()) {
	sig := make(chan os.Signal, 3)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	out := make(chan struct{})
	end := make(chan struct{})
	go func() {
		for {
			select {
			case <-sig:
				select {
				case out <- struct{}{}:
				case <-end:
					return
				}
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
