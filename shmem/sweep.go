package shmem

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Creating, closing and sweeping are safe against each other by one rule: only a process that holds the lock of a file
// removes its name. The creator holds that lock from before the final name exists until the name is gone.

// maxCreateTries is how often createLocked tries. A try fails only if a sweeper removes the new file in the
// microseconds between its creation and its lock.
const maxCreateTries = 100

// createLocked makes an empty file under a temporary name next to path and locks it.
func createLocked(path string) (*os.File, error) {
	var err error
	for range maxCreateTries {
		temp := fmt.Sprintf("%s%s%016x", path, tempMark, rand.Uint64())
		var f *os.File
		f, err = os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, spaceError(err)
		}
		var same bool
		if same, err = lockNamed(f); same {
			return f, nil
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			_ = os.Remove(temp)
			return nil, err
		}
	}
	return nil, fmt.Errorf("other processes' sweeps removed the new file %d times: %w", maxCreateTries, err)
}

// lockNamed locks an open file unless another process has the lock, and reports whether the file still has its name.
func lockNamed(f *os.File) (bool, error) {
	err := ignoringEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		return false, err
	}
	byName, err := os.Lstat(f.Name())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return false, err
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(byName, open), err
}

// Sweep removes the segments in DefaultDir (or WithDir) whose name begins with prefix and whose creator is dead,
// unfinished ones included, and returns their names. It leaves segments of living creators and files of other users.
// The prefix must be one that a segment's name can begin with.
//
// It is meant for the start and the end of a run; any process may call it at any time. After SIGKILL of a creator the
// next Sweep removes its segment. Files that cannot be removed are joined into the error, one *SegmentError each; Sweep
// still removes the others.
func Sweep(prefix string, opts ...Option) (removed []string, err error) {
	o := applyOptions(opts)
	if err := checkName(prefix); err != nil {
		return nil, &SegmentError{Op: "sweep", Path: filepath.Join(o.dir, prefix+"*"), Err: err}
	}
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return nil, &SegmentError{Op: "sweep", Path: o.dir, Err: err}
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(o.dir, e.Name())
		gone, err := sweepOne(path)
		if err != nil {
			errs = append(errs, &SegmentError{Op: "sweep", Path: path, Err: err})
		}
		if gone {
			removed = append(removed, e.Name())
		}
	}
	return removed, errors.Join(errs...)
}

// sweepOne removes a file if no process holds its lock. A file that this user may not open, or that has vanished, is no
// error.
func sweepOne(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	if errors.Is(checkOwner(f), errForeignSegment) {
		return false, nil
	}
	same, err := lockNamed(f)
	if errors.Is(err, unix.EWOULDBLOCK) || err == nil && !same {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, os.Remove(path)
}

// Reclaim removes the segment dir/name if its creator is dead, and reports whether it did. Unlike Sweep it takes the
// exact name, and leaves a file that is not a card: it is for names that a user chose. A name that is free or in use is
// no error. Errors are *SegmentError around errBadName or the system's.
func Reclaim(name string, opts ...Option) (bool, error) {
	path := filepath.Join(applyOptions(opts).dir, name)
	err := checkName(name)
	if err == nil {
		var gone bool
		if gone, err = sweepCard(path); err == nil {
			return gone, nil
		}
	}
	return false, &SegmentError{Op: "sweep", Path: path, Err: err}
}

// sweepCard is sweepOne for a file that must be a card.
func sweepCard(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, nil // it is no card: Create will report what is in the way
	}
	defer func() { _ = f.Close() }()
	if _, err := readCard(f); err != nil {
		return false, nil // as above
	}
	return sweepOne(path)
}
