package http1

import (
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller reads the connections that wait for an answer, all in one goroutine.
type poller struct {
	epoll, wake int
	ended       chan struct{}

	mu    sync.Mutex // guards conns
	conns []*conn    // by descriptor
}

func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("eventfd", err), unix.Close(epoll))
	}
	p := &poller{epoll: epoll, wake: wake, ended: make(chan struct{})}
	if err := p.watch(wake); err != nil {
		return nil, errors.Join(err, unix.Close(epoll), unix.Close(wake))
	}
	go p.loop()
	return p, nil
}

func (p *poller) watch(fd int) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
}

// add begins to read a connection, until its answer is over.
func (p *poller) add(k *conn) error {
	p.mu.Lock()
	if n := k.fd + 1 - len(p.conns); n > 0 {
		p.conns = append(p.conns, make([]*conn, n)...)
	}
	p.conns[k.fd] = k
	p.mu.Unlock()
	err := p.watch(k.fd)
	if err != nil {
		p.forget(k)
	}
	return err
}

func (p *poller) forget(k *conn) {
	p.mu.Lock()
	p.conns[k.fd] = nil
	p.mu.Unlock()
}

// close ends the loop. Nothing is read any more.
func (p *poller) close() error {
	_, err := unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if err == nil {
		<-p.ended
	}
	return errors.Join(err, unix.Close(p.wake), unix.Close(p.epoll))
}

func (p *poller) loop() {
	defer close(p.ended)
	events := make([]unix.EpollEvent, 256)
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.EpollWait(p.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			panic("http1: epoll_wait of our own descriptor: " + err.Error())
		}
		// A connection is in the table before it is watched, and only its own
		// event, of which there is one here, takes it out.
		p.mu.Lock()
		conns := p.conns
		p.mu.Unlock()
		over := false
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == p.wake {
				return
			}
			k := conns[e.Fd]
			n, err := readNow(k.fd, buf)
			switch {
			case err == unix.EAGAIN || err == unix.EINTR:
				continue
			case err != nil:
				n, err = 0, os.NewSyscallError("recv", err)
			case n == 0:
				err = io.EOF
			}
			if k.took(buf[:n], err) {
				p.end(k)
				over = true
			}
		}
		if over {
			// Who waits for an answer goes on at once, not when the runtime
			// notices that this goroutine sits in the kernel.
			runtime.Gosched()
		}
	}
}

// readNow is recv(2) that never waits: the runtime need not be told of the call.
// read(2) of a socket does the same by way of its file, which takes longer.
func readNow(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func (p *poller) end(k *conn) {
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, k.fd, nil); err != nil && k.err == nil {
		k.err = os.NewSyscallError("epoll_ctl", err)
	}
	p.forget(k)
	k.done <- struct{}{}
}
