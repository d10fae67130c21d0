package safeopen

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openFlags open without waiting, neither for the writer of a pipe nor for a device, and make no terminal the
// controlling one.
const openFlags = os.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

// A NotRegularError is a path to something else than a regular file.
type NotRegularError struct {
	Path string
	Mode fs.FileMode
}

func (e *NotRegularError) Error() string {
	return fmt.Sprintf("%s is %s, not a regular file: give the path of a regular file", e.Path, FileKind(e.Mode))
}

// FileKind is the word for the kind of a file, such as "a named pipe".
func FileKind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeCharDevice != 0:
		return "a character device"
	case m&fs.ModeDevice != 0:
		return "a block device"
	}
	return "something else (" + m.Type().String() + ")"
}

// A tooLargeError is a file with more bytes than its reader accepts.
type tooLargeError struct {
	Path  string
	Limit int64
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("%s has more than %d bytes, the most of such a file: it is probably a file of another kind",
		e.Path, e.Limit)
}

// Open opens a regular file for reading, without blocking. The error is a *NotRegularError or an error of the system.
func Open(path string) (*os.File, error) {
	return openChecked(path, os.Stat, func(name string) (*os.File, error) { return os.OpenFile(name, openFlags, 0) })
}

// openChecked is Open with the stat and the open of a file system. It stats first, since opening a device may change
// the device's state.
func openChecked(name string, stat func(string) (fs.FileInfo, error),
	with func(string) (*os.File, error)) (*os.File, error) {
	st, err := stat(name)
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, &fs.PathError{Op: "open", Path: path.Path, Err: path.Err} // the caller has asked to open, not to stat
	} else if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &NotRegularError{name, st.Mode()}
	}
	f, err := with(name)
	if err != nil {
		return nil, err
	}
	if err := checkOpened(f, name); err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return f, nil
}

// checkOpened refuses an open file that is not a regular one; errors call it name.
func checkOpened(f *os.File, name string) error {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &NotRegularError{name, st.Mode()}
	}
	return err
}

// MaxTextSize is the limit in bytes for files that people write: configurations, plans, keys. Usual ones have some
// thousand bytes.
const MaxTextSize = 4 << 20

// ReadFile reads a regular file of at most limit bytes. The error is a *NotRegularError, a *tooLargeError or an error
// of the system.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, path, limit)
}

// readAll reads a file of at most limit bytes, and closes it.
func readAll(f *os.File, path string, limit int64) ([]byte, error) {
	defer func() { _ = f.Close() }() // only read from
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, &tooLargeError{path, limit}
	}
	return b, err
}
