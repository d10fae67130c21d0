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

// The rule that makes creating, closing and sweeping safe against each other: a name is removed only by
// a process that holds the lock of the file behind it. The creator holds it from before the
// final name exists until after the name is gone.

// maxCreateTries bounds how often createLocked starts anew. Each failure needs a sweeper that
// met the new file in the microseconds between its creation and its lock.
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
	return nil, fmt.Errorf("a sweeper took the new file away %d times: %w", maxCreateTries, err)
}

// lockNamed takes the lock of an open file if nobody has it, and says whether the file still
// stands under its name.
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

// Sweep removes the segments in DefaultDir (or WithDir) whose name begins with prefix and whose
// creator is dead, also those that were never finished, and returns their names. Segments of
// living creators and files of other users stay. The prefix must be able to begin a segment's name.
//
// It is for the start and the end of a run and may be called at any time by any process: a creator
// killed by SIGKILL leaves its segment to the next Sweep. Files that could not be removed
// are joined into the error, one *SegmentError each; the rest is swept all the same.
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

// sweepOne removes the file when its lock can be had. A file that is not ours to open, or that
// went away meanwhile, is no error.
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

// Reclaim removes the segment dir/name if its creator is dead, and says whether it did. Unlike Sweep it takes the name
// as it is, and what is not a segment's card stays: it is for names that a user chose. A name that is free or in use is
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

// sweepCard is sweepOne for a file that is a card.
func sweepCard(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, nil // nothing that could be a card: creating says what is in the way
	}
	defer func() { _ = f.Close() }()
	if _, err := readCard(f); err != nil {
		return false, nil // as above
	}
	return sweepOne(path)
}
