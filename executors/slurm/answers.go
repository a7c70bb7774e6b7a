package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// version is what scontrol says of its cluster.
var version = lazyregexp.New(`(?m)^SLURM_VERSION\s*=\s*(\S+)`)

// Answers says which Slurm answers, for people, or why none does.
func Answers(ctx context.Context, options map[string]string) (string, error) {
	if err := checkOptions(options); err != nil {
		return "", err
	}
	text, err := client{options["bin"], options["conf"]}.run(ctx, "", "scontrol", "show", "config")
	if err != nil {
		return "", err
	}
	m := version.FindStringSubmatch(text)
	if m == nil {
		return "", errors.New("scontrol show config names no SLURM_VERSION")
	}
	nodes, err := client{options["bin"], options["conf"]}.run(ctx, "", "sinfo", "--noheader", "--format=%D")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Slurm %s, nodes %s", m[1], strings.Join(strings.Fields(nodes), "+")), nil
}
