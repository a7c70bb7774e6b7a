package observe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/bench/answers"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Main is the step's client: it measures the cell that the spec file describes
// at the url, which is known only once the server is up, and writes the verdict
// into its folder. It returns the exit code: 0 when the verdict is written,
// whatever it is, else 1 with the reason on stderr. SIGINT and SIGTERM end the
// run with a verdict of class interrupted.
func Main(specPath, url string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, specPath, url); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild: %v\n", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, specPath, url string) error {
	s, err := bench.ReadSpec(specPath)
	if err != nil {
		return err
	}
	s.URL = url
	if s.Out == "" {
		return errors.New("checking bench spec: out is empty; write the folder for the results")
	}
	if s.Answers {
		return answers.Step(ctx, bench.ThisHost(), s)
	}
	out, err := Run(ctx, bench.ThisHost(), s)
	var busy *BusyError
	if errors.As(err, &busy) {
		out = Outcome{Report: bench.Report{Row: result.Row{Version: result.RowVersion, Time: result.Times{Started: time.Now().UTC()}}}}
		out.Row.Fail(result.Busy, busy.Reason)
	} else if err != nil {
		return err
	}
	return out.Write(s.Out)
}
