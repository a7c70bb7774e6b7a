package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/gpu"
	"github.com/sotabuild/sotabuild/stdlib/bench/scrape"
)

// quiet refuses a server that works for somebody else, and busy GPUs. GPUs are
// watched until each has two samples or the time is over; the last one counts,
// because nvidia-smi's utilisation looks back over up to a second.
func (s *server) quiet(ctx context.Context, l bench.Look, samples *sampler) error {
	if l.Busy {
		return nil
	}
	if p, ok := s.page(ctx, l.Metrics); ok {
		running, known := p.Value(scrape.Running)
		waiting, _ := p.Value(scrape.Waiting)
		if known && running+waiting > 0 {
			return &BusyError{fmt.Sprintf("the server has %.0f requests running and %.0f waiting that are not ours", running, waiting)}
		}
	}
	if samples == nil {
		return nil
	}
	select {
	case <-time.After(quietTime):
	case <-ctx.Done():
	}
	all, err := samples.sofar()
	if err != nil {
		return err
	}
	last := map[int]gpu.Sample{}
	for _, g := range all {
		last[g.GPU] = g
	}
	for i := range 1024 {
		if g, ok := last[i]; ok && g.Busy != nil && *g.Busy > gpu.BusyFrom {
			return &BusyError{fmt.Sprintf("GPU %d is %.0f %% busy before anything was sent", i, *g.Busy*100)}
		}
	}
	return nil
}

// quietTime is how long GPUs are watched before anything is sent.
const quietTime = 1200 * time.Millisecond

// sampler is a running nvidia-smi.
type sampler struct {
	cmd *exec.Cmd
	out *output
}

// output collects what a program prints; mu guards b.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// sampler starts nvidia-smi; nil where no GPU is looked at.
func (s *server) sampler(ctx context.Context, l bench.Look) (*sampler, error) {
	if !l.GPU {
		return nil, nil
	}
	argv := gpu.Command(l.GPUs...)
	r := &sampler{exec.CommandContext(ctx, argv[0], argv[1:]...), new(output)}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.cmd.Stdout = r.out
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("sampling the GPUs: %w; do not ask for it where there are none", err)
	}
	return r, nil
}

// sofar reads what was printed until now. A last line that is not whole is left
// out.
func (r *sampler) sofar() ([]gpu.Sample, error) {
	r.out.mu.Lock()
	text := bytes.Clone(r.out.b.Bytes())
	r.out.mu.Unlock()
	all, err := gpu.Read(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
	if err != nil {
		return nil, fmt.Errorf("sampling the GPUs: %w", err)
	}
	return all, nil
}

// stop ends nvidia-smi and reads all that it printed.
func (r *sampler) stop() ([]gpu.Sample, error) {
	err := r.cmd.Process.Signal(syscall.SIGTERM)
	var ended *exec.ExitError
	if w := r.cmd.Wait(); w != nil && !errors.As(w, &ended) && !errors.Is(w, context.Canceled) {
		return nil, fmt.Errorf("sampling the GPUs: %w", errors.Join(err, w))
	}
	// One that had ended by itself says nothing more; what it printed tells why.
	return r.sofar()
}
