package safeopen

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A SymlinkError is a symbolic link in the place of an output file. Another user who may write the directory could have
// made it, so that this process reads or changes a file of the link's choice.
type SymlinkError struct{ Path string }

func (e *SymlinkError) Error() string {
	return fmt.Sprintf("%s is a symbolic link, which is not followed in an output, since it may lead to any other file: "+
		"put the file itself in its place, or remove the link", e.Path)
}

// OpenNoFollow opens a regular file in a directory that other users may write, for reading, without blocking. The error
// is a *SymlinkError, a *NotRegularError or an error of the system.
func OpenNoFollow(path string) (*os.File, error) { return OpenFileNoFollow(path, os.O_RDONLY, 0) }

// CreateNoFollow creates a file in a directory that other users may write, or empties an existing one. The errors are
// those of OpenNoFollow.
func CreateNoFollow(path string) (*os.File, error) {
	return OpenFileNoFollow(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFileNoFollow is os.OpenFile for a directory that other users may write: it opens regular files only, no links,
// and does not block. The errors are those of OpenNoFollow.
func OpenFileNoFollow(path string, flag int, perm fs.FileMode) (*os.File, error) {
	const open = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	st, err := os.Lstat(path) // before the open: opening a device may change its state
	switch {
	case err == nil && flag&os.O_EXCL == 0:
		err = checkNoFollow(path, st.Mode())
	case errors.Is(err, fs.ErrNotExist):
		err = nil // os.OpenFile creates the file, or returns this error
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag&^os.O_TRUNC|open, perm)
	if errors.Is(err, unix.ELOOP) {
		return nil, &SymlinkError{path}
	}
	if err != nil {
		return nil, err
	}
	err = checkOpened(f, path)
	if err == nil && flag&os.O_TRUNC != 0 { // not before checkOpened has seen a regular file
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// StatNoFollow describes the regular file at path. The errors are those of OpenNoFollow.
func StatNoFollow(path string) (fs.FileInfo, error) {
	st, err := os.Lstat(path)
	if err == nil {
		err = checkNoFollow(path, st.Mode())
	}
	return st, err
}

func checkNoFollow(path string, mode fs.FileMode) error {
	switch {
	case mode&fs.ModeSymlink != 0:
		return &SymlinkError{path}
	case !mode.IsRegular():
		return &NotRegularError{path, mode}
	}
	return nil
}

// ReadNoFollow reads a file that OpenNoFollow opens. If it has more than limit bytes, the error is a *tooLargeError.
func ReadNoFollow(path string, limit int64) ([]byte, error) {
	f, err := OpenNoFollow(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, path, limit)
}

// WriteNoFollow writes a file in a directory that other users may write, and syncs it to the disk. If that fails, for
// example on a full disk, it removes the file. It also removes an existing one first: the file is always new, and owned
// by this process.
func WriteNoFollow(path string, data io.Reader, perm fs.FileMode) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := OpenFileNoFollow(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// TruncateNoFollow cuts a file that OpenNoFollow would open, and that has a single name: else *HardLinkError.
func TruncateNoFollow(path string, size int64) error {
	f, err := OpenFileNoFollow(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err = CheckSingleLink(f); err == nil {
		err = f.Truncate(size)
	}
	return errors.Join(err, f.Close())
}

// A HardLinkError is a file with a second name. Another user who may write the directory could have given a foreign
// file a name there.
type HardLinkError struct{ Path string }

func (e *HardLinkError) Error() string {
	return fmt.Sprintf("%s has another name somewhere (a hard link), under which a change would appear too: "+
		"put a copy in its place", e.Path)
}

// CheckSingleLink refuses an open file with a second name: *HardLinkError.
func CheckSingleLink(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Nlink > 1 {
		return &HardLinkError{f.Name()}
	}
	return nil
}
