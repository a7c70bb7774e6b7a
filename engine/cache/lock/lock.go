// Package lock is the one writer's lock of a store: an OS lock that ends with its
// process, and names its holder to who comes meanwhile. It knows a folder and
// nothing of what is in it.
package lock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// Holder is the process that has a store open for writing.
type Holder struct {
	Pid     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"` // UTC
}

// Error says that another process has the store open for writing. Holder
// is zero when the holder had not yet written down who it is.
type Error struct {
	Dir    string
	Holder Holder
	Age    time.Duration // how long the holder has had it
}

func (e *Error) Error() string {
	if e.Holder.Pid == 0 {
		return fmt.Sprintf("store %s is in use by a process that has not said who it is", e.Dir)
	}
	return fmt.Sprintf("store %s is in use by pid %d on %s (%s) for %s", e.Dir,
		e.Holder.Pid, e.Holder.Host, e.Holder.Command, e.Age.Round(time.Second))
}

// Acquiring is tried for a moment: a holder may just be leaving, or may have
// the lock and not have named itself yet.
const (
	lockTries = 20
	lockPause = 5 * time.Millisecond
)

// Lock is an OS lock on dir/lock. It ends with the process, however that ends;
// no file has to be removed afterwards, and what the file says is only trusted
// while the lock is held.
type Lock struct{ f *os.File }

// Acquire takes the lock of the store in dir, which exists. A lock that another
// process has is an *Error. command is what others are told meanwhile.
func Acquire(dir, command string, now func() time.Time) (*Lock, error) {
	path := filepath.Join(dir, "lock")
	var holder Holder
	for try := range lockTries {
		if try > 0 {
			time.Sleep(lockPause)
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening store %s: %w", dir, err)
		}
		switch err := flock(f); {
		case err == nil && SamePath(f, path):
			l := &Lock{f}
			if err := l.sign(command, now()); err != nil {
				return nil, errors.Join(fmt.Errorf("signing the lock of store %s: %w", dir, err), f.Close())
			}
			return l, nil
		case err == nil:
			// Somebody deleted the folder and made it again meanwhile.
		case errors.Is(err, unix.EWOULDBLOCK):
			holder = readHolder(f)
		default:
			return nil, errors.Join(fmt.Errorf("locking store %s: %w", dir, err), f.Close())
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("closing the lock of store %s: %w", dir, err)
		}
		if holder.Pid != 0 && alive(holder) {
			break
		}
	}
	held := &Error{Dir: dir, Holder: holder}
	if holder.Pid != 0 {
		held.Age = max(0, now().Sub(holder.Since))
	}
	return nil, held
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// sign names the holder in the file.
func (l *Lock) sign(command string, now time.Time) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	b, err := json.Marshal(Holder{os.Getpid(), host, command, now.UTC()})
	if err != nil {
		return err
	}
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err = l.f.WriteAt(append(b, '\n'), 0)
	return err
}

// Release ends the lock. The name is taken out first, so that the next holder
// is not mistaken for this one.
func (l *Lock) Release() error { return errors.Join(l.f.Truncate(0), l.f.Close()) }

// readHolder returns the zero Holder for a file that names nobody (yet).
func readHolder(f *os.File) (h Holder) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Holder{}
	}
	return h
}

// alive reports whether the named holder can be the one that has the lock: a
// killed process leaves its name until the next one signs.
func alive(h Holder) bool {
	host, err := os.Hostname()
	return err != nil || host != h.Host || unix.Kill(h.Pid, 0) != unix.ESRCH
}

// SamePath reports whether path still names the open file.
func SamePath(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
