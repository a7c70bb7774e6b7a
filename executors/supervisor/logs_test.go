package supervisor

import (
	"fmt"
	"strings"
	"testing"
)

// TestServerThatFloodsItsLog: the server is served all the same, its log keeps
// its beginning and its end within the bound, and the record says how much is
// missing; with secrets, which go through a pipe, the same.
func TestServerThatFloodsItsLog(t *testing.T) {
	for _, secret := range []bool{false, true} {
		t.Run(fmt.Sprintf("Secret%t", secret), func(t *testing.T) {
			flags := []string{"-say", "the beginning", "-spew", "24"}
			j := newJob(t, nil, client("ask", "-get", "{url}/x"))
			if secret {
				flags = append(flags, "-split", "TOKEN")
				j.spec.Secrets, j.env = []string{"TOKEN"}, append(j.env, "TOKEN=very-secret")
			}
			server := serve("server", flags...)
			j.spec.Processes, j.spec.Endpoint.Role = append(j.spec.Processes, server), "server"
			j.spec.LogLimit = 1 << 20
			record := j.run()
			j.outcome(record.Outcome, "")
			j.outcome(j.step("ask").Outcome, "")
			log := j.read("logs/server.0.log")
			missing := record.Processes[0].LogMissing
			total := len("the beginning\n") + 24<<20
			if secret {
				total += len("token [TOKEN redacted] end\n")
			}
			line := fmt.Sprintf("\n[%d bytes of this log are left out here: it was longer than 1048576]\n", missing)
			if missing == 0 || len(log)-len(line)+int(missing) != total {
				t.Errorf("the log has %d bytes and %d are missing, of %d", len(log), missing, total)
			}
			if !strings.HasPrefix(log, "the beginning\n") || !strings.Contains(log, line) || !strings.HasSuffix(log, strings.Repeat("x", 127)+"\n") || len(log) > 1<<20 {
				t.Errorf("the log of %d bytes: %.100q … %q", len(log), log, log[len(log)-100:])
			}
			if said := j.read("logs/runner.log"); !strings.Contains(said, fmt.Sprintf("%d are left out", missing)) {
				t.Errorf("the runner does not say it:\n%s", said)
			}
		})
	}
}
