package kind

import (
	"context"

	"github.com/sotabuild/sotabuild/executors"
	executor "github.com/sotabuild/sotabuild/executors/local"
)

var local = Kind{
	Name:    "local",
	New:     func(s Setup) (executors.Executor, error) { return executor.New(s.Self, s.Tasks), nil },
	Answers: func(context.Context, Setup) (string, error) { return "processes of this host", nil },
}
