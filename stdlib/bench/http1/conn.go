package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conn is one connection, with one answer at a time.
type conn struct {
	fd  int // of the kernel's, outside Go's poller; -1: Conn
	msg message

	net.Conn         // nil with an fd
	poller   *poller // who reads fd
	done     chan struct{}
	err      error     // why the answer is not complete; the poller's until done
	used     bool      // it has carried an answer before
	since    time.Time // when it became idle
}

// descriptor returns a descriptor of a plain connection of the kernel, a second
// one, which Go's poller does not know. Not ok for any other connection.
func descriptor(c net.Conn) (fd int, ok bool, err error) {
	var raw syscall.RawConn
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return -1, false, nil
	}
	if err != nil {
		return -1, false, err
	}
	var bad error
	err = raw.Control(func(own uintptr) { fd, bad = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, bad); err != nil {
		return -1, false, err
	}
	return fd, true, nil
}

func (k *conn) close() error {
	if k.fd >= 0 {
		return unix.Close(k.fd)
	}
	return k.Conn.Close()
}

// alive says whether an idle connection was not closed by the server, as far as
// that can be seen without waiting. Bytes that nobody asked for end it too.
func (k *conn) alive() bool {
	if k.fd < 0 {
		return true
	}
	var b [1]byte
	_, _, err := unix.Recvfrom(k.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == unix.EAGAIN
}

// exchange sends a request and waits for its answer.
func (k *conn) exchange(ctx context.Context, request []byte, to Receiver) error {
	k.msg, k.err = message{to: to, text: k.msg.text[:0]}, nil
	if k.fd < 0 {
		return k.converse(ctx, request)
	}
	if err := k.poller.add(k); err != nil {
		return err
	}
	// The poller lets go of the connection when the answer is over; shutting
	// the connection down is how it learns that ctx is.
	var turn struct {
		sync.Mutex
		over bool
	}
	stop := context.AfterFunc(ctx, func() {
		turn.Lock()
		defer turn.Unlock()
		if !turn.over {
			_ = unix.Shutdown(k.fd, unix.SHUT_RDWR) // an error says that it is down already
		}
	})
	failed := write(ctx, k.fd, request)
	if failed != nil && !errors.Is(failed, unix.EPIPE) && !errors.Is(failed, unix.ECONNRESET) {
		_ = unix.Shutdown(k.fd, unix.SHUT_RDWR)
	}
	// After a broken pipe the server may have answered all the same.
	<-k.done
	stop()
	turn.Lock()
	turn.over = true
	turn.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case k.err != nil && failed != nil && !k.msg.began:
		return failed
	}
	return k.err
}

// write sends all of b. The poller reads meanwhile, so that a server
// that answers before it has read everything is no deadlock.
func write(ctx context.Context, fd int, b []byte) error {
	const patience = 50 // ms between looks at ctx
	for len(b) > 0 {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, patience); err != nil && err != unix.EINTR {
				return os.NewSyscallError("poll", err)
			}
		default:
			return os.NewSyscallError("send", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// took takes what a read gave and says whether the exchange is over.
func (k *conn) took(b []byte, err error) bool {
	if len(b) > 0 {
		k.msg.to.Stamp()
		if bad := k.msg.feed(b); bad != nil {
			k.err = bad
			return true
		}
		if k.msg.over() {
			return true
		}
	}
	switch {
	case err == nil:
		return false
	case errors.Is(err, io.EOF):
		k.err = k.msg.end()
	default:
		k.err = err
	}
	return true
}

// rooms are read buffers of connections that are not the kernel's.
var rooms = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// writeGrace is how long after a whole answer its request may still be being
// written. It had been read, as a rule, and its writer has only to notice.
const writeGrace = 100 * time.Millisecond

// converse is exchange on any other connection: the request is written beside.
func (k *conn) converse(ctx context.Context, request []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = k.Conn.Close() })
	defer stop()
	sent := make(chan error, 1)
	go func() {
		_, err := k.Conn.Write(request)
		sent <- err
	}()
	room := rooms.Get().(*[16 << 10]byte)
	for {
		n, err := k.Conn.Read(room[:])
		if k.took(room[:n], err) {
			break
		}
	}
	rooms.Put(room)
	var failed error
	late := time.NewTimer(writeGrace)
	defer late.Stop()
	select {
	case failed = <-sent:
	case <-late.C:
		// The server answered without reading all: closing ends the writing.
		_ = k.Conn.Close()
		<-sent
		k.msg.extra = true
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case k.err != nil && failed != nil && !k.msg.began:
		return failed
	}
	return k.err
}
