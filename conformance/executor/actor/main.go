// Command actor is the program that the conformance suite of executors runs as
// a task: it does what its words say, above all what is hard to do right. It is
// static and needs no file beside itself, so it runs in an empty container.
//
//	actor MARK WORD ARGUMENTS…
//
// MARK is of no use to it: by it the suite finds its processes on the host. As
// `actor slurm-job FOLDER` it is that program of sotabuild.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/executors/slurm/job"
	"github.com/sotabuild/sotabuild/executors/supervisor"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: actor MARK WORD ARGUMENTS…")
		os.Exit(98)
	}
	if os.Args[1] == "slurm-job" {
		os.Exit(job.Main(os.Args[2]))
	}
	words := map[string]func([]string) int{
		"exit": exit, "signal": kill, "eat": eat, "spare": spare, "sleep": sleep, "deaf": deaf, "trap": trap,
		"lines": lines, "line": line, "bytes": all, "tick": tick, "report": report, "tree": tree,
		"count": count, "mounts": mounts, "hold": hold, "serve": serve, "runner": supervise,
	}
	do, ok := words[os.Args[2]]
	if !ok {
		fmt.Fprintf(os.Stderr, "actor: unknown word %q\n", os.Args[2])
		os.Exit(98)
	}
	os.Exit(do(os.Args[3:]))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		os.Exit(97)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	must(err)
	return n
}

// exit CODE ends with a code.
func exit(args []string) int { return number(args[0]) }

// kill SIGNAL ends by a signal, by number.
func kill(args []string) int {
	must(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	sig := unix.Signal(number(args[0]))
	signal.Reset(sig)
	must(unix.Kill(os.Getpid(), sig))
	time.Sleep(time.Minute)
	return 96
}

// eat MIB touches so much memory and keeps it.
func eat(args []string) int {
	b := make([]byte, number(args[0])<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("ate", len(b))
	return 0
}

// spare MIB lets a child eat, and ends with 0 whatever becomes of it.
func spare(args []string) int {
	cmd := exec.Command(os.Args[0], os.Args[1], "eat", args[0])
	fmt.Println("the child:", cmd.Run())
	return 0
}

// sleep DURATION says ready, sleeps and ends with 0.
func sleep(args []string) int {
	d, err := time.ParseDuration(args[0])
	must(err)
	fmt.Println("ready")
	time.Sleep(d)
	return 0
}

// deaf hears no SIGTERM, and neither does the grandchild that it leaves in a
// session of its own. It says ready and never ends.
func deaf(args []string) int {
	signal.Notify(make(chan os.Signal, 8), syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	switch len(args) {
	case 0: // ourselves: the child ends when the grandchild lives
		cmd := exec.Command(os.Args[0], os.Args[1], "deaf", "child")
		cmd.Env = []string{"EMPTY=1"}
		must(cmd.Run())
		fmt.Println("ready")
	case 1:
		cmd := exec.Command(os.Args[0], os.Args[1], "deaf", "grand", "child")
		cmd.Env = []string{"EMPTY=1"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		must(err)
		must(cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		must(err)
		return 0
	default:
		fmt.Println("here")
	}
	select {}
}

// trap CODE says ready; at SIGTERM it writes the file "trapped" and ends.
func trap(args []string) int {
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM)
	fmt.Println("ready")
	<-sigs
	must(os.WriteFile("trapped", []byte("TERM"), 0o600))
	return number(args[0])
}

// lines N prints numbered lines.
func lines(args []string) int {
	out := bufio.NewWriter(os.Stdout)
	for i := range number(args[0]) {
		fmt.Fprintf(out, "line %d of the task's output\n", i)
	}
	must(out.Flush())
	return 0
}

// line N prints one line of N bytes between two short ones.
func line(args []string) int {
	n := number(args[0])
	fmt.Printf("before\n%s\nafter\n", strings.Repeat("0123456789", n/10+1)[:n])
	return 0
}

// all N prints all 256 bytes N times, with no newline at the end.
func all(args []string) int {
	var one [256]byte
	for i := range one {
		one[i] = byte(i)
	}
	_, err := os.Stdout.Write(bytes.Repeat(one[:], number(args[0])))
	must(err)
	return 0
}

// tick N PAUSE CODE [FILE] prints N lines with a pause after each, waits for
// the file, and ends.
func tick(args []string) int {
	pause, err := time.ParseDuration(args[1])
	must(err)
	fmt.Println("ready")
	for i := range number(args[0]) {
		fmt.Println("tick", i)
		time.Sleep(pause)
	}
	for len(args) > 3 {
		if _, err := os.Stat(args[3]); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println("end")
	return number(args[2])
}

// Report is what report writes.
type Report struct {
	Args   []string // after FILE
	Env    []string
	Cwd    string
	Stdin  int // bytes read until its end
	NoFile uint64
	Shm    int64 // bytes of /dev/shm; -1 where there is none
	Uid    int
}

// report FILE ARGUMENTS… writes what it sees of its surroundings.
func report(args []string) int {
	cwd, err := os.Getwd()
	must(err)
	in, err := io.ReadAll(os.Stdin)
	must(err)
	r := Report{Args: args[1:], Env: os.Environ(), Cwd: cwd, Stdin: len(in), Shm: -1, Uid: os.Getuid()}
	var limit unix.Rlimit
	must(unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &limit))
	r.NoFile = limit.Max
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) == nil {
		r.Shm = int64(fs.Blocks) * fs.Bsize
	}
	text, err := json.Marshal(r)
	must(err)
	must(os.WriteFile(args[0], text, 0o600))
	return 0
}

// tree writes into the working folder what outputs can be made of.
func tree([]string) int {
	syscall.Umask(0)
	for _, dir := range []string{"out/empty", "out/deep/er"} {
		must(os.MkdirAll(dir, 0o755))
	}
	for name, mode := range map[string]os.FileMode{
		"plain": 0o644, "private": 0o600, "program": 0o755, "read-only": 0o444, "deep/er/file": 0o640,
		" space ": 0o644, "-dash": 0o644, "new\nline": 0o644, "ünïcödé": 0o644, `back\slash"quote'`: 0o644,
		"not\xffutf8": 0o644, strings.Repeat("n", 200): 0o644,
	} {
		must(os.WriteFile(filepath.Join("out", name), []byte(name), mode))
	}
	must(os.WriteFile("out/nothing", nil, 0o644))
	must(os.Symlink("plain", "out/link"))
	must(os.Symlink("deep/er", "out/folder link"))
	must(os.Symlink("no such", "out/dangling"))
	must(os.Link("out/plain", "out/hard"))
	return 0
}

// count FILE adds one line to a file.
func count(args []string) int {
	f, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.WriteString("ran\n")
	must(errors.Join(err, f.Close()))
	fmt.Println("ready")
	return 0
}

// mounts RO RW wants to read RO/in, to write RW/out, and not to write RO.
func mounts(args []string) int {
	in, err := os.ReadFile(filepath.Join(args[0], "in"))
	must(err)
	must(os.WriteFile(filepath.Join(args[1], "out"), append(in, " went through"...), 0o600))
	if err := os.WriteFile(filepath.Join(args[0], "forbidden"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		fmt.Println("writing a read-only mount:", err)
		return 3
	}
	return 0
}

// hold FOLDER NAME holds a thing that only one may have, for a moment, and
// writes the file "held". A NAME of the form $VARIABLE is read from the
// environment.
func hold(args []string) int {
	name, isVariable := strings.CutPrefix(args[1], "$")
	if isVariable {
		name = os.Getenv(name)
	}
	if name == "" {
		fmt.Println("no GPU was given to us")
		return 4
	}
	path := filepath.Join(args[0], "gpu-"+filepath.Base(name))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		fmt.Println("somebody else has", name)
		return 5
	}
	must(err)
	must(file.Close())
	time.Sleep(20 * time.Millisecond)
	must(os.Remove(path))
	must(os.WriteFile("held", []byte(name), 0o600))
	return 0
}

// serve PORT answers every request with 200, until TERM.
func serve(args []string) int {
	must(http.ListenAndServe("127.0.0.1:"+args[0], http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	return 0
}

// supervise SPEC is the supervisor of a task, `sotabuild runner SPEC`.
func supervise(args []string) int { return supervisor.Main(args[0]) }
