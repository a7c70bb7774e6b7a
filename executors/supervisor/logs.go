package supervisor

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/sotabuild/sotabuild/executors/logfile"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// boundEvery is how often the servers' logs are looked at: what they may grow
// by beyond their bound.
const boundEvery = time.Second

// boundLogs keeps the logs of all servers within the spec's bound. The function
// that it returns is called when all of them are down: it writes into the record
// what is missing of each.
func (t *task) boundLogs() (end func(*runner.ExitRecord)) {
	limit := orDefault(t.spec.LogLimit, runner.DefaultLogLimit)
	logs := map[string]*logfile.Bound{}
	for _, p := range t.spec.Processes {
		for n := range p.Count {
			name := fmt.Sprintf("%s.%d", p.Role, n)
			logs[name] = logfile.New(filepath.Join(t.dir, "logs", name+".log"), limit)
		}
	}
	if len(logs) == 0 {
		return func(*runner.ExitRecord) {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(boundEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for name, b := range logs {
				if err := b.Keep(); err != nil {
					t.say("%s: %v", name, err)
					delete(logs, name) // it would be so each second
				}
			}
		}
	}()
	return func(record *runner.ExitRecord) {
		close(stop)
		<-stopped
		for name, b := range logs {
			if err := b.Keep(); err != nil { // what came since the last look
				t.say("%s: %v", name, err)
				continue
			}
			missing, err := b.Close()
			if err != nil {
				t.say("%s: %v", name, err)
			}
			if missing == 0 {
				continue
			}
			t.say("%s: its log was longer than %d bytes; %d are left out", name, limit, missing)
			for i := range record.Processes {
				if record.Processes[i].Name == name {
					record.Processes[i].LogMissing = missing
				}
			}
		}
	}
}
