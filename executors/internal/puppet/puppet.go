// Package puppet holds programs for tests: servers and clients that do exactly
// what their flags say, above all wrong things. They are real processes: a test
// binary runs itself again as `SELF puppet NAME FLAGS`, so its TestMain calls
// Main first.
package puppet

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main runs a puppet and exits, if the command line asks for one.
func Main() {
	if filepath.Base(os.Args[0]) == "nvidia-smi" {
		smi(filepath.Dir(os.Args[0]))
	}
	if len(os.Args) < 3 || os.Args[1] != "puppet" {
		return
	}
	programs := map[string]func(*flag.FlagSet, []string){"server": server, "client": client, "sleeper": sleeper, "forker": forker}
	programs[os.Args[2]](flag.NewFlagSet(os.Args[2], flag.ExitOnError), os.Args[3:])
	os.Exit(0)
}

// Self returns the command line of a puppet.
func Self(name string, flags ...string) []string {
	self, err := os.Executable()
	must(err)
	return append([]string{self, "puppet", name}, flags...)
}

// Port returns a free port that nobody is given: neither a connection nor a task
// that chooses its own nor a cluster of the tests.
func Port() int {
	for {
		port := 10000 + rand.IntN(6000)
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			must(l.Close())
			return port
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "puppet:", err)
		os.Exit(97)
	}
}

// server answers GET /health and /id, and everything else with "hello".
func server(f *flag.FlagSet, args []string) {
	port := f.String("port", "", "listen here; empty never listens")
	status := f.Int("status", 200, "of /health")
	deaf := f.Bool("deaf", false, "ignore SIGTERM")
	slow := f.Duration("slow", 0, "from SIGTERM to the end")
	fork := f.String("fork", "", "double-fork a deaf sleeper that writes its pid here")
	bare := f.Bool("bare", false, "the forked one has an empty environment")
	dieAt := f.Int64("die-at", 0, "end at this request that is not for /health")
	code := f.Int("code", 1, "exit code of that end; 0 is a SIGSEGV")
	say := f.String("say", "", "print this first")
	once := f.String("once", "", "fail with address in use while this file is not there, and make it")
	touch := f.String("touch", "", "make this file first")
	shm := f.String("shm", "", "make, map and keep this file")
	spew := f.Int("spew", 0, "print so many MiB before listening")
	split := f.String("split", "", "print the value of this variable in two writes")
	needs := f.String("needs", "", "fail unless this port is listened to")
	must(f.Parse(args))

	obey(*deaf, *slow) // before anything shows that we are here
	for _, path := range []string{*touch, *once} {
		_, err := os.Stat(path)
		if path != "" && err != nil {
			must(os.WriteFile(path, []byte("here"), 0o600))
			if path == *once {
				fmt.Println("bind: address already in use")
				os.Exit(1)
			}
		}
	}
	if *say != "" {
		fmt.Println(*say)
	}
	if *split != "" {
		value := os.Getenv(*split)
		os.Stdout.WriteString("token " + value[:len(value)/2])
		os.Stdout.WriteString(value[len(value)/2:] + " end\n")
	}
	if *shm != "" {
		hold(*shm)
	}
	if *fork != "" {
		forkSleeper(*fork, *bare)
	}
	lines := []byte(strings.Repeat(strings.Repeat("x", 127)+"\n", 1<<10))
	for range *spew << 3 {
		os.Stdout.Write(lines)
	}
	if *needs != "" {
		_, err := http.Get("http://127.0.0.1:" + *needs + "/health")
		must(err)
	}
	if *port == "" {
		select {}
	}
	var asked atomic.Int64
	must(http.ListenAndServe("127.0.0.1:"+*port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			w.WriteHeader(*status)
			return
		}
		if asked.Add(1) == *dieAt {
			if *code == 0 {
				// Go's runtime handles a SIGSEGV; after an exec nobody does.
				must(syscall.Exec("/bin/sh", []string{"sh", "-c", "ulimit -c 0; kill -SEGV $$"}, nil))
			}
			os.Exit(*code)
		}
		fmt.Fprintf(w, "hello from %s", r.URL.Path)
	})))
}

// obey sets what SIGTERM does.
func obey(deaf bool, slow time.Duration) {
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for range sigs {
			if !deaf {
				time.Sleep(slow)
				os.Exit(0)
			}
		}
	}()
}

// hold makes a file and keeps it mapped.
func hold(path string) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(err)
	must(file.Truncate(4096))
	_, err = syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	must(err)
	must(file.Close())
}

// forkSleeper starts a sleeper by way of a process that ends at once, and
// returns when it has written its pid.
func forkSleeper(pidFile string, bare bool) {
	argv := Self("forker", "-pid", pidFile)
	cmd := exec.Command(argv[0], argv[1:]...)
	if bare {
		cmd.Env = []string{"EMPTY=1"}
	}
	must(cmd.Run())
	for {
		if _, err := os.Stat(pidFile); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// forker starts a sleeper in a session of its own and ends.
func forker(f *flag.FlagSet, args []string) {
	pid := f.String("pid", "", "the sleeper's pid file")
	must(f.Parse(args))
	argv := Self("sleeper", "-pid", *pid)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(cmd.Start())
}

// sleeper is deaf and never ends.
func sleeper(f *flag.FlagSet, args []string) {
	pid := f.String("pid", "", "write our pid here")
	must(f.Parse(args))
	obey(true, 0)
	if *pid != "" {
		must(os.WriteFile(*pid+".new", fmt.Append(nil, os.Getpid()), 0o600))
		must(os.Rename(*pid+".new", *pid))
	}
	select {}
}

// client is a step.
func client(f *flag.FlagSet, args []string) {
	get := f.String("get", "", "ask this URL")
	times := f.Int("times", 1, "so often")
	out := f.String("out", "", "write the last answer here")
	env := f.String("env", "", "write our environment here")
	text := f.String("text", "", "NAME=text: write text into the file NAME")
	link := f.String("link", "", "make a link of this name to /etc/passwd")
	count := f.String("count", "", "append a line to this file")
	print := f.String("print", "", "print this variable")
	lines := f.Int("lines", 0, "print so many numbered lines")
	started := f.String("started", "", "make this file, then sleep for good")
	until := f.String("until", "", "but end when this file is there")
	deaf := f.Bool("deaf", false, "ignore SIGTERM")
	code := f.Int("code", 0, "exit code")
	sig := f.Int("signal", 0, "end ourselves by this signal")
	must(f.Parse(args))

	var answer []byte
	for range *times {
		if *get == "" {
			break
		}
		response, err := http.Get(*get)
		must(err)
		answer, err = io.ReadAll(response.Body)
		must(err)
		response.Body.Close()
	}
	write := func(path string, text []byte) {
		if path != "" {
			must(os.WriteFile(path, text, 0o600))
		}
	}
	write(*out, answer)
	write(*env, []byte(strings.Join(os.Environ(), "\n")))
	if name, content, ok := strings.Cut(*text, "="); ok {
		write(name, []byte(content))
	}
	if *link != "" {
		must(os.Symlink("/etc/passwd", *link))
	}
	if *count != "" {
		file, err := os.OpenFile(*count, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		must(err)
		fmt.Fprintln(file, os.Getpid())
	}
	if *print != "" {
		fmt.Println(os.Getenv(*print))
	}
	for i := range *lines {
		fmt.Println("line", i)
	}
	if *started != "" {
		obey(*deaf, 0)
		write(*started, []byte("here"))
		for {
			if _, err := os.Stat(*until); *until != "" && err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if *sig != 0 {
		must(unix.Kill(os.Getpid(), unix.Signal(*sig)))
		select {}
	}
	os.Exit(*code)
}

// smi answers as nvidia-smi does: the process whose pid stands in dir/pid is on
// the GPU, for the first three calls after it is gone.
func smi(dir string) {
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		os.Exit(0) // idle
	}
	if _, err := os.Stat("/proc/" + string(pid)); err != nil {
		calls := filepath.Join(dir, "calls")
		seen, _ := os.ReadFile(calls)
		must(os.WriteFile(calls, append(seen, '.'), 0o600))
		if len(seen) >= 3 {
			os.Exit(0)
		}
	}
	fmt.Printf("GPU-f00d, %s, python, 1024\n", pid)
	os.Exit(0)
}
