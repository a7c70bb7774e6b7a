package daemon

import (
	"errors"

	"github.com/containerd/errdefs"
)

// ErrAbsent marks an image that the daemon does not have.
var ErrAbsent = errors.New("the daemon does not have the image")

// ErrGone marks a container that was removed while it was read.
var ErrGone = errors.New("the container was removed")

// Away says whether an error is about the connection and not the daemon's
// word: asking again may help.
func Away(err error) bool {
	if err == nil || errors.Is(err, ErrAbsent) || errdefs.IsNotFound(err) || errdefs.IsConflict(err) || errdefs.IsInvalidArgument(err) ||
		errdefs.IsInternal(err) || errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) || errdefs.IsNotImplemented(err) {
		return false
	}
	return true
}

// Conflict says whether the daemon refuses because of what is there: a name that
// is taken, an exec that was started, a container that does not run.
func Conflict(err error) bool { return errdefs.IsConflict(err) }

// Invalid says whether what was asked for can never be: a mount of a folder that
// the daemon's host does not have, a name that is none.
func Invalid(err error) bool { return errdefs.IsInvalidArgument(err) }
