// Command tinyserve is a real, small server for a random transformer: an
// OpenAI-compatible endpoint with continuous batching, chunked prefill and a
// prefix cache, in plain Go on the CPU. Its model says nothing; everything
// around it is real, so benchmarks of it are.
//
// Package main holds the command line (options.go), the HTTP interface (api.go,
// request.go, answer.go) and the life of the process (this file). The step loop is
// in internal/engine, the transformer in internal/model, the vocabulary in
// internal/vocab, traces of steps in internal/profile.
//
// The invariant: a greedy answer, and a drawn one with its seed, is a function
// of the weights and the request alone. Batch, chunks, kernel, threads and
// prefix cache change the speed, never a bit of a logit: every reduction adds
// in ascending order in float32. Package model says how that is kept.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/engine"
	"github.com/sotabuild/sotabuild/examples/tinyserve/internal/model"
)

const version = "0.1.0"

// Exit codes: 0 told to stop, or help or version printed; 1 the server could
// not start or run; 2 wrong command line.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, err = io.WriteString(stdout, help())
	case err != nil:
		fmt.Fprintln(stderr, usage())
		complain(stderr, err)
		fmt.Fprintln(stderr, "hint: tinyserve --help lists the flags")
		return exitUsage
	case o.Version:
		_, err = fmt.Fprintln(stdout, "tinyserve "+version)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
		context.AfterFunc(ctx, stop) // a second signal ends the process at once
		err = serve(ctx, o, log.New(stderr, "tinyserve: ", 0))
	}
	if err != nil {
		complain(stderr, err)
		return exitFailed
	}
	return exitOK
}

// complain writes an error, each of joined ones on its own line.
func complain(to io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(to, "tinyserve: error: %s\n", strings.TrimSpace(line))
	}
}

// grace is how long clients get to read the end of their answers when the
// server is told to stop.
const grace = 700 * time.Millisecond

// serve listens, loads and serves until ctx ends; nil then.
func serve(ctx context.Context, o options, out *log.Logger) error {
	config, err := model.ReadConfig(o.Model)
	if err != nil {
		return err
	}
	if o.MaxLen == 0 {
		o.MaxLen = config.MaxPositions
	}
	if o.MaxLen > config.MaxPositions {
		return fmt.Errorf("--max-model-len %d is more than the model's max_position_embeddings, %d", o.MaxLen, config.MaxPositions)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.Host, strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	out.Printf("listening on http://%s", listener.Addr())

	// The engine ends first, so that open answers end and Shutdown can.
	s := newServer(o.Name, o.MaxLen, o.Profiles, o.Shapes)
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: out}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 2)
	wg.Go(func() { failed <- web.Serve(listener) })
	engineEnded := make(chan struct{})
	wg.Go(func() {
		defer close(engineEnded)
		if err := load(ctx, o, config, s, out); err != nil {
			failed <- err
		}
	})
	select {
	case err := <-failed:
		return errors.Join(err, web.Close())
	case <-ctx.Done():
	}
	out.Print("shutting down")
	<-engineEnded
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := web.Shutdown(last); errors.Is(err, context.DeadlineExceeded) {
		out.Print("closing connections that are still open")
		return web.Close()
	} else if err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}

// load makes the model ready, hands its engine to s and runs it until ctx
// ends.
func load(ctx context.Context, o options, config model.Config, s *server, out *log.Logger) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(o.loadDelay()):
	}
	m := model.New(config)
	e, err := engine.New(m, engine.Config{
		MaxSeqs:   o.MaxSeqs,
		MaxTokens: o.MaxTokens,
		MaxLen:    o.MaxLen,
		Threads:   o.Threads,
		Kernel:    model.Kernels[o.Kernel],
		Prefix:    o.Prefix,
	})
	if err != nil {
		return err
	}
	s.engine.Store(e)
	out.Printf("ready: %s, %d parameters, %s kernel, %d threads", o.Name, m.Parameters(), o.Kernel, o.Threads)
	e.Run(ctx)
	return nil
}
