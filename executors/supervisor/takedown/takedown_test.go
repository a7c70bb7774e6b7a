package takedown

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/executors/internal/puppet"
	"github.com/sotabuild/sotabuild/executors/internal/trial"
	"github.com/sotabuild/sotabuild/executors/proc"
)

func TestMain(m *testing.M) {
	puppet.Main()
	os.Exit(m.Run())
}

// TestStop: TERM comes before KILL, KILL only where TERM was not enough, and no
// wait outlasts a hurry.
func TestStop(t *testing.T) {
	reaper := proc.NewReaper()
	defer reaper.Close()
	never, closed, soon := make(chan struct{}), make(chan struct{}), make(chan struct{})
	close(closed)
	for _, c := range []struct {
		name  string
		deaf  bool
		hurry chan struct{}
		waits []time.Duration
		want  string
	}{
		{"Heeds", false, never, []time.Duration{time.Hour, time.Hour}, "TERM"},
		{"Deaf", true, never, []time.Duration{time.Millisecond, time.Millisecond}, "TERM TERM KILL"},
		{"AtOnce", false, never, nil, "KILL"},
		{"InAHurry", true, closed, []time.Duration{time.Hour}, "TERM KILL"},
		{"HurryComes", true, soon, []time.Duration{time.Hour}, "TERM KILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := filepath.Join(t.TempDir(), "up")
			argv := puppet.Self("server", "-touch", up)
			if c.deaf {
				argv = append(argv, "-deaf")
			}
			child, err := reaper.Start(proc.Command{Argv: argv, Dir: "/", Stdout: os.Stderr, Stderr: os.Stderr})
			if err != nil {
				t.Fatal(err)
			}
			trial.Until(t, time.Minute, "the server", func() bool { _, err := os.Stat(up); return err == nil })
			if c.hurry == soon {
				time.AfterFunc(10*time.Millisecond, func() { close(soon) })
			}
			var took []string
			for _, act := range (Ender{Say: t.Logf, Hurry: c.hurry}).Stop(child, time.Now().Add(2*time.Hour), c.waits...) {
				took = append(took, act.Action)
			}
			if got := strings.Join(took, " "); got != c.want {
				t.Errorf("it took %s, want %s", got, c.want)
			}
			select {
			case <-child.Done:
			default:
				t.Error("it lives")
			}
			if again := (Ender{Say: t.Logf, Hurry: c.hurry}).Stop(child, time.Now()); len(again) > 0 {
				t.Errorf("stopping what has ended took %v", again)
			}
		})
	}
}
