package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/redact"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// server is one instance of a process.
type server struct {
	runner.Process
	name     string // ROLE.N
	port     int
	claim    net.Listener // keeps the port among runners
	child    *proc.Child  // nil before it was started
	sink     *redact.Sink
	from     int64 // where this life begins in its log
	stopping atomic.Bool
	record   runner.ProcessRecord
}

// tries is how often servers are started when a port that we chose is taken
// between choice and use.
const tries = 3

// up starts all servers and waits until they are healthy. The context that it
// returns ends, with an *end as its cause, when they are not, when one dies
// later, or when the task has to end.
func (t *task) up(ctx context.Context) (life context.Context, kill context.CancelCauseFunc) {
	for try := 1; ; try++ {
		life, kill = context.WithCancelCause(ctx)
		t.raise(life, kill)
		why, ok := context.Cause(life).(*end)
		if !ok || ctx.Err() != nil || try == tries || !t.portLost(why) {
			return life, kill
		}
		t.say("try %d: %s; starting again with other ports", try, t.explain(life).Reason)
		kill(nil)
		t.lower(time.Now().Add(10 * time.Second))
	}
}

// portLost says whether other ports may help.
func (t *task) portLost(e *end) bool {
	if e.server == nil {
		return e.again
	}
	e.server.sink.Finish(time.Second)
	return e.server.Port == 0 && portTaken.Match(redact.Tail(e.server.log(t.dir), e.server.from))
}

var portTaken = lazyregexp.New(`(?i)address already in use|EADDRINUSE|couldn't bind|error while attempting to bind`)

// raise does one try. Whatever goes wrong is handed to kill.
func (t *task) raise(life context.Context, kill context.CancelCauseFunc) {
	until := time.Now().Add(orDefault(t.spec.Deadlines.Start, 10*time.Minute))
	if failed := t.place(); failed != nil {
		kill(failed)
		return
	}
	for _, wave := range t.servers {
		if life.Err() != nil {
			return
		}
		for _, s := range wave {
			if failed := t.launch(s, kill); failed != nil {
				kill(failed)
				return
			}
		}
		t.observe()
		var all sync.WaitGroup
		for _, s := range wave {
			all.Go(func() {
				if failed := t.await(life, s, until); failed != nil {
					kill(failed)
				}
			})
		}
		all.Wait()
		t.observe()
	}
}

// place makes the instances and gives each its port, before any is started:
// one may need another's.
func (t *task) place() *end {
	order, err := runner.Waves(t.spec.Processes)
	if err != nil {
		panic("runner: a spec that was not checked: " + err.Error())
	}
	t.servers = nil
	for i, wave := range order {
		t.servers = append(t.servers, nil)
		for _, p := range wave {
			for n := range p.Count {
				s := &server{Process: p, name: fmt.Sprintf("%s.%d", p.Role, n)}
				if s.port, s.claim, err = proc.Claim(p.Port); err != nil {
					return &end{StepOutcome: outcome(executors.ClassPortInUse, "%s: %v", s.name, err)}
				}
				t.servers[i] = append(t.servers[i], s)
			}
		}
	}
	return nil
}

// launch starts one instance.
func (t *task) launch(s *server, kill context.CancelCauseFunc) *end {
	fail := func(err error) *end {
		return &end{StepOutcome: outcome(executors.ClassStartFailed, "%s: %v", s.name, err)}
	}
	path := s.log(t.dir)
	if info, err := os.Stat(path); err == nil {
		s.from = info.Size()
	}
	var err error
	if s.sink, err = t.hide.Open(path); err != nil {
		return fail(err)
	}
	defer s.sink.Handed()
	fill := t.words(s, "")
	argv, dir := fillAll(fill, s.Argv), s.Dir
	if dir == "" {
		dir = t.dir
	}
	s.record = runner.ProcessRecord{Name: s.name, Port: s.port, Argv: t.hide.Texts(argv), Phases: map[string]float64{}}
	s.child, err = t.reaper.Start(proc.Command{
		Argv: argv, Env: t.env(fillAll(fill, s.Env)), Dir: dir, Stdout: s.sink.Child, Stderr: s.sink.Child,
		OnExit: func() {
			if !s.stopping.Load() {
				kill(&end{server: s})
			}
		},
	})
	if err != nil {
		return fail(err)
	}
	s.record.Pid, s.record.Started = s.child.Pid, s.child.Started.UTC()
	t.say("%s: started as pid %d on port %d", s.name, s.child.Pid, s.port)
	return nil
}

// await polls until the server is healthy and proven to be ours; nil then, and
// also when life has ended.
func (t *task) await(life context.Context, s *server, until time.Time) *end {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	tick := time.NewTicker(orDefault(s.Health.Every, 100*time.Millisecond))
	defer tick.Stop()
	for {
		why, failed := t.check(life, s)
		if failed != nil || life.Err() != nil {
			return failed
		}
		if why == "" {
			s.record.Healthy = time.Now().UTC()
			s.record.Phases["healthy"] = time.Since(s.child.Started).Seconds()
			t.say("%s: healthy", s.name)
			return nil
		}
		if len(t.spec.Steps) > 0 && t.asked() {
			return &end{StepOutcome: outcome(executors.ClassInterrupted, "the task was asked to end before its first step")}
		}
		select {
		case <-life.Done():
			return nil
		case <-late.C:
			return &end{StepOutcome: outcome(executors.ClassUnhealthy,
				"%s was not healthy within %s: %s%s", s.name, orDefault(t.spec.Deadlines.Start, 10*time.Minute), why, s.lastLines(t.dir))}
		case <-tick.C:
		}
	}
}

// check looks once. why says what is missing yet.
func (t *task) check(life context.Context, s *server) (why string, failed *end) {
	sockets, err := proc.Answering(s.port)
	if err != nil {
		return err.Error(), nil
	}
	if len(sockets) == 0 {
		return fmt.Sprintf("nobody listens on port %d", s.port), nil
	}
	if _, seen := s.record.Phases["listen"]; !seen {
		s.record.Phases["listen"] = time.Since(s.child.Started).Seconds()
	}
	want := s.Health.Status
	if want == 0 {
		want = http.StatusOK
	}
	status, _, err := get(life, s.port, s.Health.Path)
	if err != nil {
		return err.Error(), nil
	}
	if status != want {
		return fmt.Sprintf("GET %s answers %d, not %d", s.Health.Path, status, want), nil
	}
	// The table is read again after the answer: the proof must be of the
	// socket that answered.
	stranger, err := t.stranger(s)
	if err != nil {
		return err.Error(), nil
	}
	if stranger != "" {
		return "", &end{again: s.Port == 0, StepOutcome: outcome(executors.ClassNotOurs,
			"%s: port %d is answered by somebody else: %s", s.name, s.port, stranger)}
	}
	id := s.Health.Identity
	if id.Path == "" {
		return "", nil
	}
	status, body, err := get(life, s.port, id.Path)
	if err != nil || status != http.StatusOK {
		return fmt.Sprintf("GET %s answers %d (%v)", id.Path, status, err), nil
	}
	if !bytes.Contains(body, []byte(id.Contains)) {
		return "", &end{StepOutcome: outcome(executors.ClassNotOurs,
			"%s: GET %s does not name %q; it answers %.200q", s.name, id.Path, id.Contains, body)}
	}
	return "", nil
}

// get asks once, on a connection of its own and through no proxy.
func get(ctx context.Context, port int, path string) (int, []byte, error) {
	ctx, done := context.WithTimeout(ctx, 5*time.Second)
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d%s", proc.Host, port, path), nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, body, err
}

// explain says what the end of the servers' life was; ok while it goes on.
func (t *task) explain(life context.Context) runner.StepOutcome {
	e, ok := context.Cause(life).(*end)
	if !ok {
		return runner.StepOutcome{}
	}
	if e.server == nil {
		return e.StepOutcome
	}
	s := e.server
	s.sink.Finish(time.Second)
	tail := redact.Tail(s.log(t.dir), s.from)
	class, how := executors.ClassServerDied, s.name+" "+s.child.How()
	if kills, own := proc.OOMKills(); kills != t.kills && (own || s.child.Signaled(syscall.SIGKILL)) {
		class = executors.ClassOOM
		how += "; the kernel killed for memory meanwhile"
	}
	for _, f := range s.Failures {
		if regexp.MustCompile(f.Match).Match(tail) {
			class = f.Class
			break
		}
	}
	if holder, err := t.stranger(s); err == nil && holder != "" && s.record.Healthy.IsZero() && portTaken.Match(tail) {
		class = executors.ClassPortInUse
		how += fmt.Sprintf("; port %d is held by %s", s.port, holder)
	}
	return outcome(class, "%s%s", how, s.lastLines(t.dir))
}

func (s *server) log(dir string) string { return filepath.Join(dir, "logs", s.name+".log") }

// lastLines returns the last lines of the log for people, or "".
func (s *server) lastLines(dir string) string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(redact.Tail(s.log(dir), s.from)), "?")), "\n")
	text := strings.Join(lines[max(0, len(lines)-5):], "\n")
	if text == "" {
		return "; its log is empty"
	}
	return "; its log ends: " + text[max(0, len(text)-1000):]
}

// words replaces the words of argv and env. s is nil for a step.
func (t *task) words(s *server, step string) *strings.Replacer {
	pairs := []string{"{out}", t.dir, "{gpus}", strings.Join(t.spec.GPUs, ","), "{host}", proc.Host}
	url := strings.TrimSuffix(t.spec.Endpoint.URL, "/")
	for _, wave := range t.servers {
		for _, o := range wave {
			pairs = append(pairs, fmt.Sprintf("{port:%s}", o.name), fmt.Sprint(o.port))
			if o.name == t.spec.Endpoint.Role+".0" {
				url = fmt.Sprintf("http://%s:%d", proc.Host, o.port)
			}
		}
	}
	if s != nil {
		pairs = append(pairs, "{port}", fmt.Sprint(s.port))
	} else {
		pairs = append(pairs, "{url}", url, "{step}", step)
	}
	return strings.NewReplacer(pairs...)
}

func fillAll(r *strings.Replacer, list []string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = r.Replace(text)
	}
	return out
}

// env completes the declared environment.
func (t *task) env(declared []string) []string {
	name, _, _ := strings.Cut(t.visible, "=")
	if t.visible != "" && !slices.ContainsFunc(declared, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
		declared = append(declared, t.visible)
	}
	return append(append(declared, executors.EnvTask+"="+string(t.spec.Task)), t.hide.Env()...)
}

func orDefault[T time.Duration | int64](d, otherwise T) T {
	if d == 0 {
		return otherwise
	}
	return d
}
