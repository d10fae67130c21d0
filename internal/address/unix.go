package address

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// pathInUseError says that a path is in use. kind is the operating system's error for the same.
type pathInUseError struct {
	reason string
	kind   error
}

func (e *pathInUseError) Error() string { return e.reason }
func (e *pathInUseError) Unwrap() error { return e.kind }

// RemoveStaleSocket removes a Unix-domain socket at which no process listens. The error says what else is at the path,
// or that a process listens there.
func RemoveStaleSocket(ctx context.Context, path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return &pathInUseError{path + " exists and is no socket: remove it, or choose another path", fs.ErrExist}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return &pathInUseError{"a process listens at " + path + " already: end it, or choose another path",
			syscall.EADDRINUSE}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
