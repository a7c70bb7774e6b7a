package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// File is the Set in the folder of results.
const File = "answers.json"

// statusError is an answer with another status than 200.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// Step collects the answers that the Spec asks for into its folder, with a
// verdict for the runner: a server that does not answer is an outcome.
func Step(ctx context.Context, host bench.Host, s bench.Spec) error {
	set, err := Collect(ctx, host, s)
	var o runner.StepOutcome
	var status *statusError
	switch {
	case errors.As(err, &status):
		o = runner.StepOutcome{Class: result.HTTPStatus, Reason: err.Error()}
	case err != nil && ctx.Err() == nil:
		o = runner.StepOutcome{Class: result.ConnFailed, Reason: err.Error()}
	case err != nil:
		return err
	}
	if err := set.Save(filepath.Join(s.Out, File)); err != nil {
		return err
	}
	b, err := json.Marshal(o)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Out, bench.OutcomeFile), b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the outcome: %w", err)
	}
	return nil
}
