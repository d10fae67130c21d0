package safeopen

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openFlags open without waiting: neither for who is to write to a pipe nor for a device, and take no terminal.
const openFlags = os.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

// A NotRegularError is a name that stands for something else than a regular file.
type NotRegularError struct {
	Path string
	Mode fs.FileMode
}

func (e *NotRegularError) Error() string {
	return fmt.Sprintf("%s is %s, not a regular file: what is to be read must stand in one", e.Path, FileKind(e.Mode))
}

// FileKind is what a file of that mode is called.
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

// A tooLargeError is a file with more than whoever reads it takes.
type tooLargeError struct {
	Path  string
	Limit int64
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("%s has more than the %d bytes that are read of such a file: it is not what it was taken for",
		e.Path, e.Limit)
}

// Open opens a regular file for reading, and waits for nobody. The error is a *NotRegularError or that of the system.
func Open(path string) (*os.File, error) {
	return openChecked(path, os.Stat, func(name string) (*os.File, error) { return os.OpenFile(name, openFlags, 0) })
}

// openChecked is Open with the stat and the open of a file system. To open a device may do something to it, so that it
// is looked at first.
func openChecked(name string, stat func(string) (fs.FileInfo, error),
	with func(string) (*os.File, error)) (*os.File, error) {
	st, err := stat(name)
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, &fs.PathError{Op: "open", Path: path.Path, Err: path.Err} // that is what was to be done
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
		_ = f.Close() // it was not used
		return nil, err
	}
	return f, nil
}

// checkOpened says of an open file why it is not a regular one, as which it was named; nil if it is.
func checkOpened(f *os.File, name string) error {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &NotRegularError{name, st.Mode()}
	}
	return err
}

// MaxTextSize is the most that is read of files which people write: configurations, plans, keys. They have some
// thousand bytes.
const MaxTextSize = 4 << 20

// ReadFile reads a regular file of at most limit bytes. The error is a *NotRegularError, a *tooLargeError or that of
// the system.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, path, limit)
}

// readAll reads a file of at most limit bytes, and closes it.
func readAll(f *os.File, path string, limit int64) ([]byte, error) {
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, &tooLargeError{path, limit}
	}
	return b, err
}
