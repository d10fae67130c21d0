package output

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// writeError is a file that could not be written to. The libraries that write files put words of their own around the
// system's; here the cause stands first.
type writeError struct {
	Path string
	Err  error // the system's
}

// Error is a sentence.
func (e *writeError) Error() string {
	s := fmt.Sprintf("%v: %s could not be written", e.Err, e.Path)
	if errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT) {
		s += ": make room there, and give the same command again (a directory goes on behind its whole parts)"
	}
	return s
}

// Unwrap is the system's error.
func (e *writeError) Unwrap() error { return e.Err }

// written judges an error of writing to a file, which may be nil.
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
