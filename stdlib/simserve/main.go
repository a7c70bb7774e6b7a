package simserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// Exit codes of Main, as DESIGN 7 has them.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 7
)

// command is the parsed command line.
type command struct {
	config Config
	host   string
	port   int
	stamps string // file for the stamps; "" for none
	flags  *pflag.FlagSet
}

func parseArgs(args []string) (*command, error) {
	c := &command{flags: pflag.NewFlagSet("sotabuild simserve", pflag.ContinueOnError)}
	f, s := c.flags, &c.config
	f.SortFlags = false
	f.Usage = func() {} // Main prints the help where it belongs
	f.StringVar(&c.host, "host", "127.0.0.1", "address to listen on")
	f.IntVar(&c.port, "port", 8000, "port to listen on; 0 takes a free one")
	f.String("model", "", "path of a model, as a campaign's command passes it; nothing is read there")
	f.StringVar(&s.Model, "served-model-name", "sim", "model name")
	f.DurationVar(&s.StartDelay, "start-delay", 0, "time until /health answers 200")
	f.IntVar(&s.Slots, "max-num-seqs", 0, "requests served at a time; 0 is all")
	f.DurationVar(&s.Prefill, "prefill", 10*time.Millisecond, "time to the first token")
	f.DurationVar(&s.PerToken, "prefill-per-token", 0, "further time to the first token for each prompt token")
	f.DurationVar(&s.Step, "step", time.Millisecond, "time from one event with tokens to the next")
	f.IntVar(&s.Form.PerEvent, "tokens-per-event", 1, "tokens in one event")
	f.DurationVar(&s.Engine.BatchStep, "step-per-request", 0, "further time of a step for each other request in the batch")
	f.IntVar(&s.Engine.CacheBlock, "cache-block", 0, "tokens of a block of the prefix cache; 0 is no cache")
	f.IntSliceVar(&s.Engine.Bursts, "bursts", nil, "tokens of the events in turn, as speculation makes them: 1,3,2")
	f.BoolVar(&s.Form.RoleFirst, "role-first", false, "send an event without a token before the prefill")
	f.StringVar((*string)(&s.Form.Usage), "usage", string(UsageEvent), "where the counts stand: event, finish, token or every")
	f.StringVar((*string)(&s.Fault), "fault", "", "what goes wrong, see below")
	f.IntVar(&s.Every, "fault-every", 1, "only every N-th request is faulty")
	f.IntVar(&s.After, "fault-after", 0, "only requests after the first N are faulty")
	f.StringVar(&c.stamps, "stamps", "", "file to append the times of each request to (JSON lines, ns since 1970)")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("%q is no flag; simserve takes flags only", f.Arg(0))
	}
	if c.port < 0 || c.port > 65535 {
		return c, fmt.Errorf("port is %d; write a number from 0 to 65535", c.port)
	}
	return c, c.config.check()
}

func (c *command) help(w io.Writer) error {
	text := "Serves an exact schedule without a model, to calibrate load generators.\n\n" +
		"usage: sotabuild simserve [flags]\n\nflags:\n" + c.flags.FlagUsages() + "\nfaults:\n"
	for _, r := range Faults {
		text += fmt.Sprintf("      %-14s %s\n", r.Fault, r.Meaning)
	}
	_, err := io.WriteString(w, text)
	return err
}

// Main is `sotabuild simserve`: it serves until SIGINT or SIGTERM and returns
// the exit code.
func Main(args []string) int {
	c, err := parseArgs(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		if err := c.help(os.Stdout); err != nil {
			return exitError
		}
		return exitOK
	case err != nil:
		fmt.Fprintf(os.Stderr, "sotabuild: %v\nhint: sotabuild simserve --help\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := c.serve(ctx, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild: %v\n", err)
		return exitError
	}
	return exitOK
}

// serve serves until ctx is done. It names its address on out.
func (c *command) serve(ctx context.Context, out io.Writer) error {
	if c.stamps == "" {
		return c.listen(ctx, out)
	}
	f, err := os.OpenFile(c.stamps, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening stamps file: %w", err)
	}
	log := &stampLog{enc: json.NewEncoder(f)}
	c.config.Stamp = log.add
	return errors.Join(c.listen(ctx, out), log.end(), f.Close())
}

func (c *command) listen(ctx context.Context, out io.Writer) error {
	h, err := Handler(c.config)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(c.host, strconv.Itoa(c.port)))
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if _, err := fmt.Fprintf(out, "listening on http://%s\n", l.Addr()); err != nil {
		return errors.Join(fmt.Errorf("naming the address: %w", err), l.Close())
	}
	// The end of ctx ends every stream; what is then still open is a client's
	// idle or stuck connection.
	srv := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return ctx }}
	down := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(grace) == nil {
			down <- nil
			return
		}
		down <- srv.Close()
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serving: %w", err)
	}
	return <-down
}

// stampLog writes stamps to a file. mu guards all fields.
type stampLog struct {
	mu  sync.Mutex
	enc *json.Encoder
	err error // the first one; a log with a gap is none
}

func (l *stampLog) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// stampLine is a Stamp as text: nanoseconds since 1970.
type stampLine struct {
	Request int     `json:"request"`
	Arrived int64   `json:"arrived_ns"`
	Writes  []int64 `json:"writes_ns"`
}

func (l *stampLog) add(s Stamp) {
	line := stampLine{Request: s.Request, Arrived: s.Arrived.UnixNano(), Writes: []int64{}}
	for _, t := range s.Writes {
		line.Writes = append(line.Writes, t.UnixNano())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.enc.Encode(line)
	}
}
