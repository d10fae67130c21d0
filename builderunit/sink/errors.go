package sink

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// SinkError says which output failed, in doing what, and why.
type SinkError struct {
	Path  string // the destination, or the file that failed
	Op    string // what the sink was doing, as a verb
	Cause error
}

func (e *SinkError) Error() string {
	cause := e.Cause
	var path *fs.PathError
	if errors.As(cause, &path) { // the sentence has the path already
		cause = path.Err
	}
	switch {
	case errors.Is(e.Cause, unix.ENOSPC):
		return fmt.Sprintf("output %s: disk full: cannot %s: %v", e.Path, e.Op, cause)
	case errors.Is(e.Cause, unix.EDQUOT):
		return fmt.Sprintf("output %s: disk quota used up: cannot %s: %v", e.Path, e.Op, cause)
	case errors.Is(e.Cause, unix.EFBIG):
		return fmt.Sprintf("output %s: the file would be larger than is allowed: cannot %s: %v", e.Path, e.Op, cause)
	}
	return fmt.Sprintf("output %s: cannot %s: %v", e.Path, e.Op, cause)
}

// Unwrap returns the cause.
func (e *SinkError) Unwrap() error { return e.Cause }

// A changedError says that another program has changed a file while the sink wrote it.
type changedError struct {
	Written, Actual int64 // bytes
	Gone            bool  // its name belongs to another file now, or to none
}

func (e *changedError) Error() string {
	what := fmt.Sprintf("another program has changed it to %d bytes, and %d were written", e.Actual, e.Written)
	if e.Gone {
		what = fmt.Sprintf("another program has removed or replaced it after %d bytes were written", e.Written)
	}
	return what + ": keep that program away from this directory, and record the run again"
}

// wrapError returns err as a *SinkError: nil if err is nil, and err itself if it is a *SinkError already.
func wrapError(path, op string, err error) error {
	var known *SinkError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &SinkError{Path: path, Op: op, Cause: err}
}

// isDiskFull says whether there was no room: a full disk, a used-up quota, or a limit on the size of files.
func (e *SinkError) isDiskFull() bool {
	return errors.Is(e.Cause, unix.ENOSPC) || errors.Is(e.Cause, unix.EDQUOT) || errors.Is(e.Cause, unix.EFBIG)
}

var (
	// errClosed says that the sink was used after Finish or Abort.
	errClosed = errors.New("it is finished or given up")
	// errNotRegular says that the destination exists and is not a file that can be replaced.
	errNotRegular = errors.New("it exists and is not a regular file")
	// ErrExists says that the destination exists and may not be replaced.
	ErrExists = errors.New("it exists: give another path or --overwrite")
	// ErrMeta says that a MEP does not have the events that its Meta says.
	ErrMeta = errors.New("the MEP does not have the events that are expected of it")
)
