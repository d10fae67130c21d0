package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
)

// Check says why no run can be recorded in dir at this moment: it is no directory, cannot be made, or cannot be
// written to. It leaves no file behind, and does not wait.
func Check(dir string) error {
	err := isDir(dir)
	switch {
	case err == nil:
		return canWrite(dir, dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := isDir(parent); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("output %s: its parent %s does not exist: make that first, or correct the path", dir, parent)
	} else if err != nil {
		return err
	}
	return canWrite(dir, parent)
}

// CheckFile says why no single output file can be made at path: what Check finds of the directory for its segments, or
// that path exists. With overwrite, a regular file at path is accepted.
func CheckFile(path string, overwrite bool) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("output %s: %w", path, err)
	case !st.Mode().IsRegular():
		return fmt.Errorf("output %s: it is %s, not a file: give another path", path, safeopen.FileKind(st.Mode()))
	case !overwrite:
		return fmt.Errorf("output %s: it exists: give another path or --overwrite", path)
	}
	return Check(path + SegmentsSuffix)
}

// returnSpace is how many bytes CheckSpace wants free at most.
const returnSpace = 64 << 20

// CheckSpace says why a builder unit whose output has failed cannot go on with a run in dir: what Check finds, or too
// little free space. It wants the bytes of a segment, but at most 64 MiB and a sixteenth of the file system. If too few
// are free, the error is a unix.ENOSPC.
func CheckSpace(dir string, segment int64) error {
	if err := Check(dir); err != nil {
		return err
	}
	free, size, err := space(dir)
	if err != nil {
		return err
	}
	if need := min(segment, returnSpace, size/16); free < need {
		return fmt.Errorf("output %s: %d bytes are free there, and %d are needed: %w", dir, free, need, unix.ENOSPC)
	}
	return nil
}

// FreeSpaceWarning returns a sentence if less than need bytes are free in the file system of dir, or of its parent if
// dir does not exist. It returns "" if there are enough, and also if it cannot find out.
func FreeSpaceWarning(dir string, need int64) (warning string) {
	n, _, err := space(dir)
	if errors.Is(err, fs.ErrNotExist) {
		n, _, err = space(filepath.Dir(filepath.Clean(dir)))
	}
	if err != nil || n >= need {
		return ""
	}
	return fmt.Sprintf("output %s: %d bytes are free there, less than the %d of one segment", dir, n, need)
}

// space returns how many bytes are free in the file system of a directory, and how many it has.
func space(dir string) (free, size int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	bytes := func(blocks uint64) int64 { return int64(min(blocks, 1<<62/uint64(st.Bsize))) * st.Bsize }
	return bytes(st.Bavail), bytes(st.Blocks), nil
}

// isDir returns an error that says why path is not a directory.
func isDir(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("output %s: %w", path, err)
	}
	if !st.IsDir() {
		return fmt.Errorf("output %s: it is %s, not a directory: give another path", path, safeopen.FileKind(st.Mode()))
	}
	return nil
}

// canWrite creates and removes a file in dir, for an output.
func canWrite(output, dir string) error {
	f, err := os.CreateTemp(dir, ".ringlet-check-*")
	if err != nil {
		return fmt.Errorf("output %s: %s cannot be written to: %w", output, dir, err)
	}
	_, err = f.Write(make([]byte, 4096)) // a full disk accepts an empty file
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("output %s: %s cannot be written to: %w", output, dir, err)
	}
	return nil
}
