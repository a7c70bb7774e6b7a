package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// client calls Slurm's programs: those of bin, with the configuration conf; ""
// is where the host has them.
type client struct{ bin, conf string }

// patience bounds one call. Slurm's own programs give up after some 10 to 20 s
// when no controller answers.
const patience = time.Minute

// awayError says that Slurm did not answer. It says nothing about what was asked: it
// may have been done.
type awayError struct{ text string }

func (a awayError) Error() string { return "Slurm does not answer: " + a.text }

// away reports whether an error says nothing but that Slurm does not answer.
func away(err error) bool {
	var a awayError
	return errors.As(err, &a)
}

// refusedError is Slurm's own word about why it does not do what was asked.
type refusedError struct{ text string }

func (r refusedError) Error() string { return r.text }

// noAnswer matches the texts of the programs when it is not the question that
// is wrong.
var noAnswer = lazyregexp.New(`(?i)unable to contact slurm controller|timed out|connection refused|connect failure|connection failure|` +
	`zero bytes were transmitted|in standby|temporarily unable|resource temporarily unavailable|munge|authentication|` +
	`unable to (connect|establish)|failed to fetch config|configuration source|unexpected end of|no route to host`)

// unknownJob matches what they say of a job that the controller has forgotten.
var unknownJob = lazyregexp.New(`(?i)invalid job id`)

// kept are the variables that our calls get. Slurm's own ones but the
// configuration's path change defaults silently, and sbatch hands everything on
// to the job.
var kept = []string{"PATH", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "KRB5CCNAME", "SLURM_CONF"}

func (c client) path(name string) (string, error) {
	if c.bin != "" {
		return filepath.Join(c.bin, name), nil
	}
	path, ok := proc.Tool(name)
	if !ok {
		return "", fmt.Errorf("there is no program %s; run sotabuild on a host with Slurm's clients, or write options = { bin = \"FOLDER\" }", name)
	}
	return path, nil
}

// run calls a program and returns what it printed. The error is an awayError,
// a refusedError, or the end of ctx.
func (c client) run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	path, err := c.path(name)
	if err != nil {
		return "", refusedError{err.Error()}
	}
	limited, done := context.WithTimeout(ctx, patience)
	defer done()
	cmd := exec.CommandContext(limited, path, args...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = []string{"LC_ALL=C"}
	for _, v := range kept {
		value, ok := os.LookupEnv(v)
		if v == "SLURM_CONF" && c.conf != "" {
			value, ok = c.conf, true
		}
		if ok {
			cmd.Env = append(cmd.Env, v+"="+value)
		}
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	text := strings.ReplaceAll(strings.ToValidUTF8(said.String(), "?"), name+": error: ", "")
	text = strings.Join(strings.Fields(text), " ")
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "", awayError{fmt.Sprintf("%s took longer than %s", name, patience)}
	case noAnswer.MatchString(text):
		return "", awayError{fmt.Sprintf("%s says %q", name, text)}
	}
	return out.String(), refusedError{fmt.Sprintf("%s says %q (%v)", name, text, err)}
}
