package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
)

// Names of the directories that soaks make, and of what is in them.
const (
	dirPrefix = "ringlet-soak-"
	lockName  = "lock" // held by the soak that made the directory
	keptName  = "kept" // marks a directory that is kept after a failure
)

// A workDir is the directory of a soak. It is kept after a failure. The next soak removes the directory of a soak that
// was killed.
type workDir struct {
	path string
	lock *os.File
}

// makeDir removes stale directories, and makes a new one.
func makeDir(in string) (*workDir, error) {
	if err := removeStaleDirs(in); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(in, dirPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := locked(path)
	if err != nil {
		return nil, err
	}
	return &workDir{path, lock}, nil
}

// locked takes the lock of a directory, or fails at once.
func locked(path string) (*os.File, error) {
	f, err := safeopen.OpenFileNoFollow(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the lock of %s: %w", path, err)
	}
	return f, nil
}

// removeStaleDirs removes directories of soaks that were killed.
func removeStaleDirs(in string) error {
	found, err := filepath.Glob(filepath.Join(in, dirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range found {
		if _, err := os.Stat(filepath.Join(path, keptName)); err == nil {
			continue
		}
		lock, err := locked(path)
		if err != nil {
			continue // another soak uses it
		}
		err = os.RemoveAll(path)
		_ = lock.Close()
		if err != nil {
			return fmt.Errorf("what a soak left that was killed cannot be removed: %w", err)
		}
	}
	return nil
}

// close removes the directory; with keep it marks it as kept.
func (d *workDir) close(keep bool) error {
	defer func() { _ = d.lock.Close() }()
	if keep {
		return os.WriteFile(filepath.Join(d.path, keptName), nil, 0o600)
	}
	return os.RemoveAll(d.path)
}
