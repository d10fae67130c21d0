package safeopen

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A SymlinkError is a symbolic link in the place of a file of an output. Who may write the directory may leave one
// there that leads to any file of whoever opens it.
type SymlinkError struct{ Path string }

func (e *SymlinkError) Error() string {
	return fmt.Sprintf("%s is a symbolic link, and a file of an output is not reached through one, since it may lead to "+
		"a file of somebody else: put the file itself in its place, or remove the link", e.Path)
}

// OpenNoFollow opens a regular file of a directory that others may write, for reading, and waits for nobody. The error
// is a *SymlinkError, a *NotRegularError or that of the system.
func OpenNoFollow(path string) (*os.File, error) { return OpenFileNoFollow(path, os.O_RDONLY, 0) }

// CreateNoFollow makes a file of a directory that others may write, and empties one that is there. The errors are those
// of OpenNoFollow.
func CreateNoFollow(path string) (*os.File, error) {
	return OpenFileNoFollow(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFileNoFollow is os.OpenFile for a directory that others may write: it opens no link, nothing but a regular file,
// and waits for nobody. The errors are those of OpenNoFollow.
func OpenFileNoFollow(path string, flag int, perm fs.FileMode) (*os.File, error) {
	const open = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	st, err := os.Lstat(path) // to open a device may do something to it
	switch {
	case err == nil && flag&os.O_EXCL == 0:
		err = checkNoFollow(path, st.Mode())
	case errors.Is(err, fs.ErrNotExist):
		err = nil // that is for open to say, or to make it
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
	if err == nil && flag&os.O_TRUNC != 0 { // only of what it was taken for
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// StatNoFollow is what stands at path, if it is a regular file. The errors are those of OpenNoFollow.
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

// ReadNoFollow reads at most limit bytes of a file that OpenNoFollow opens. The error of a larger one is a
// *tooLargeError.
func ReadNoFollow(path string, limit int64) ([]byte, error) {
	f, err := OpenNoFollow(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, path, limit)
}

// WriteNoFollow writes a file of a directory that others may write, and has it on the disk, or removes it: a full disk
// has no room for half of one. What stands there is removed before: the file is new, and belongs to this process.
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

// TruncateNoFollow cuts a file that OpenNoFollow would open, and that has no other name.
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

// A HardLinkError is a file that has another name somewhere. Who may write a directory may give any file a name there.
type HardLinkError struct{ Path string }

func (e *HardLinkError) Error() string {
	return fmt.Sprintf("%s has another name somewhere (a hard link), and what is changed here would be changed there: "+
		"put a copy in its place", e.Path)
}

// CheckSingleLink refuses an open file that has another name: *HardLinkError.
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
