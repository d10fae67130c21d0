package output

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// writeError is a failed write to a file. The libraries wrap the system's error in texts of their own; writeError puts
// the cause first.
type writeError struct {
	Path string
	Err  error // the system's error
}

// Error is the cause, the file, and what to do about a full disk.
func (e *writeError) Error() string {
	s := fmt.Sprintf("%v: %s could not be written", e.Err, e.Path)
	if errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT) {
		s += ": make room there, and give the same command again (a directory goes on behind its whole parts)"
	}
	return s
}

// Unwrap returns Err.
func (e *writeError) Unwrap() error { return e.Err }

// written turns an error of a library that writes a file into a *writeError, if the system is the cause; nil stays nil.
func written(path string, err error) error {
	if err == nil {
		return nil
	}
	var system *fs.PathError
	var judged *writeError
	switch {
	case errors.As(err, &judged):
		return err
	case errors.As(err, &system):
		return &writeError{path, system.Err}
	}
	return fmt.Errorf("%s: %w", path, err)
}
