package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
)

// cpu is what this process has used; it fails on no system that runs this.
func cpu() time.Duration {
	used, err := cpuOf(0)
	if err != nil {
		panic(fmt.Sprintf("clients: the process's own CPU clock: %v", err))
	}
	return used
}

// cpuOf is what a process has used by its CPU clock; 0 is this one.
func cpuOf(pid int) (time.Duration, error) {
	clock := int32(unix.CLOCK_PROCESS_CPUTIME_ID)
	if pid != 0 {
		clock = ^int32(pid)<<3 | 2 // as clock_getcpuclockid does
	}
	var t unix.Timespec
	err := unix.ClockGettime(clock, &t)
	return time.Duration(t.Nano()), os.NewSyscallError("clock_gettime", err)
}

// readOurs is the whole load generator as `sotabuild bench` uses it.
func readOurs(addr string, streams, rounds int) (late []int64, used time.Duration, err error) {
	dir, err := os.MkdirTemp("", "sotabuild-clients-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	var prompts []dataset.Prompt
	for i := range streams {
		prompts = append(prompts, dataset.Prompt{Tokens: []int{i}, OutputLen: rounds})
	}
	file, err := dataset.Write(prompts)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "p"), file, 0o600)
	}
	if err != nil {
		return nil, 0, err
	}
	// CPU time counts to the last byte, as for the others: the verdict is found
	// afterwards.
	host := bench.ThisHost()
	host.CPU = func() time.Duration { used = cpu(); return used }
	rep, err := host.Run(context.Background(), bench.Spec{Version: bench.SpecVersion, URL: "http://" + addr, Path: "/v1/completions", API: bench.Completions,
		Model: "sim", Prompts: filepath.Join(dir, "p"), Load: bench.Load{Arrival: bench.Inf}, Rules: bench.Rules{MinSuccess: 1, IgnoreEOS: true}})
	if err != nil {
		return nil, 0, err
	}
	if rep.Row.Requests.OK != streams {
		return nil, 0, fmt.Errorf("%d of %d requests succeeded: %s", rep.Row.Requests.OK, streams, rep.Row.Reason)
	}
	log, err := fetchLog(addr)
	if err != nil {
		return nil, 0, err
	}
	start := rep.Row.Time.Started.UnixNano()
	for i, reads := range rep.Reads {
		if len(reads) != len(log[i]) {
			return nil, 0, fmt.Errorf("stream %d: %d events read, %d written", i, len(reads), len(log[i]))
		}
		for j, at := range reads {
			late = append(late, start+int64(at)-log[i][j])
		}
	}
	return late, used, nil
}

func fetchLog(addr string) (out [][]int64, err error) {
	resp, err := http.Get("http://" + addr + "/log")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var times []int64
		for _, f := range strings.Fields(line) {
			t, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return nil, err
			}
			times = append(times, t)
		}
		out = append(out, times)
	}
	return out, nil
}

// readEpoll is the floor: one thread, no goroutine a stream, no JSON, nothing
// but the time in each event.
func readEpoll(addr string, streams, rounds int) (late []int64, used time.Duration, err error) {
	host, port, _ := strings.Cut(addr, ":")
	p, err := strconv.Atoi(port)
	if err != nil || host != "127.0.0.1" {
		return nil, 0, fmt.Errorf("address %q", addr)
	}
	ep, err := syscall.EpollCreate1(0)
	if err != nil {
		return nil, 0, err
	}
	rest := map[int32][]byte{}
	for i := range streams {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			return nil, 0, err
		}
		body := fmt.Sprintf(`{"model":"sim","prompt":[%d],"max_tokens":%d,"stream":true}`, i, rounds)
		err = errors.Join(syscall.Connect(fd, &syscall.SockaddrInet4{Port: p, Addr: [4]byte{127, 0, 0, 1}}),
			send(fd, fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)),
			syscall.SetNonblock(fd, true),
			syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}))
		if err != nil {
			return nil, 0, err
		}
		rest[int32(fd)] = nil
	}
	late = make([]int64, 0, streams*rounds)
	events := make([]syscall.EpollEvent, 256)
	var buf [64 << 10]byte
	for open := streams; open > 0; {
		n, err := syscall.EpollWait(ep, events, -1)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		for _, e := range events[:n] {
			m, err := syscall.Read(int(e.Fd), buf[:])
			now := time.Now().UnixNano()
			if errors.Is(err, syscall.EAGAIN) {
				continue
			}
			if err != nil || m == 0 {
				return nil, 0, fmt.Errorf("the connection ended early: %w", err)
			}
			b := append(rest[e.Fd], buf[:m]...)
			last := bytes.LastIndexByte(b, '\n') + 1
			for line := range bytes.Lines(b[:last]) {
				if t, ok := eventTime(line); ok {
					late = append(late, now-t)
				}
				if bytes.HasPrefix(line, []byte("data: [DONE]")) {
					open--
				}
			}
			rest[e.Fd] = append(rest[e.Fd][:0], b[last:]...)
		}
	}
	return late, cpu(), syscall.Close(ep)
}

func send(fd int, s string) error {
	_, err := syscall.Write(fd, []byte(s))
	return err
}

// eventTime reads the number after "t": at the end of an event.
func eventTime(line []byte) (int64, bool) {
	i := bytes.LastIndex(line, []byte(`"t":`))
	if i < 0 {
		return 0, false
	}
	t, err := strconv.ParseInt(strings.TrimRight(string(line[i+4:]), "}\n"), 10, 64)
	return t, err == nil
}
