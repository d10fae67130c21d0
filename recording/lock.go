package recording

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
)

// lockTimeout bounds how long a process waits for a lock that other processes hold only for one change. A process that
// is stopped (SIGSTOP) during the change holds it for longer.
const lockTimeout = 30 * time.Second

// errLocked says that another process holds a lock.
var errLocked = errors.New("another process holds its lock")

// A lockError says which lock could not be taken.
type lockError struct {
	Path  string
	Cause error
}

func (e *lockError) Error() string {
	switch {
	case errors.Is(e.Cause, errLocked):
		return fmt.Sprintf("another process has held the lock of %s for longer than %v: "+
			"look for one that is stopped (fuser %s)", e.Path, lockTimeout, e.Path)
	case errors.Is(e.Cause, unix.ENOLCK), errors.Is(e.Cause, unix.EOPNOTSUPP), errors.Is(e.Cause, unix.ENOSYS):
		return fmt.Sprintf("%s cannot be locked: its file system has no flock (%v): put the output elsewhere",
			e.Path, e.Cause)
	}
	return fmt.Sprintf("%s cannot be locked: %v", e.Path, e.Cause)
}

// Unwrap returns the cause.
func (e *lockError) Unwrap() error { return e.Cause }

// tryLock takes the exclusive lock of f, or returns errLocked. Closing f releases the lock.
func tryLock(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		case !errors.Is(err, unix.EINTR):
			return &lockError{Path: f.Name(), Cause: err}
		}
	}
}

// waitLock takes the exclusive lock of f, and waits for it for up to lockTimeout.
func waitLock(f *os.File) error {
	for from, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := tryLock(f)
		if !errors.Is(err, errLocked) {
			return err
		}
		if time.Since(from) > lockTimeout {
			return &lockError{Path: f.Name(), Cause: errLocked}
		}
		time.Sleep(pause)
	}
}

// pathNamesFile says whether path still names the file f: while a process waited for the lock of f, another one may
// have removed f.
func pathNamesFile(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Lstat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// CreateIndex makes and locks the index of a new segment: Recover leaves the segment alone until the file is closed.
// The error is fs.ErrExist if the name is taken.
func CreateIndex(path string) (*os.File, error) {
	f, err := safeopen.OpenFileNoFollow(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	if err := waitLock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !pathNamesFile(f, path) { // Recover removed it before the lock, because it was empty
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: fs.ErrExist}, f.Close())
	}
	return f, nil
}

// openExclusive opens the file at path, such as an index, making it if it is not there, and locks it. errLocked says
// that another process has the lock: the writer of the segment, or another Recover.
func openExclusive(path string) (*os.File, error) {
	f, err := safeopen.OpenFileNoFollow(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	err = tryLock(f)
	for try := 0; try < openExclusiveTries && errors.Is(err, errLocked); try++ { // isInUse may hold it for a moment
		time.Sleep(time.Millisecond)
		err = tryLock(f)
	}
	if err == nil && !pathNamesFile(f, path) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openExclusiveTries is how often openExclusive retries a lock that is taken.
const openExclusiveTries = 20

// isInUse says whether the process that writes the segment with the index at path lives.
func isInUse(path string) bool {
	f, err := safeopen.OpenNoFollow(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// LockRunDir locks the directory of a run for one process that fills it, until the result is closed. The error is a
// *DrainingError if another process has the lock. On a file system without locks for directories every process gets
// it.
func LockRunDir(runDir string) (io.Closer, error) {
	d, err := os.Open(runDir)
	if err != nil {
		return nil, err
	}
	if errors.Is(tryLock(d), errLocked) {
		_ = d.Close() // nothing was done with it
		return nil, &DrainingError{runDir, "another process that filters a backlog writes to it: wait for it, or end it"}
	}
	return d, nil
}

// withRunLock calls do while it holds the lock of the run in runDir.
func withRunLock(runDir string, do func() error) (err error) {
	f, err := safeopen.OpenFileNoFollow(lockPath(runDir), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := waitLock(f); err != nil {
		return err
	}
	return do()
}
