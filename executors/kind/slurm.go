package kind

import (
	"context"

	"github.com/sotabuild/sotabuild/executors"
	executor "github.com/sotabuild/sotabuild/executors/slurm"
)

var slurm = Kind{
	Name: "slurm", Help: "run sotabuild on a login node, with SLURM_CONF set where it is not in /etc/slurm",
	New: func(s Setup) (executors.Executor, error) {
		return executor.New(executor.Config{Self: s.Self, Options: s.Options, Roots: []string{s.Tasks}})
	},
	Answers: func(ctx context.Context, s Setup) (string, error) { return executor.Answers(ctx, s.Options) },
}
