package safeopen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// AllowedPaths are the places from which files may be read. Nil allows every file; the zero value none.
type AllowedPaths struct {
	Dirs  []string // absolute; all files below them
	Files []string // absolute; single files besides
}

// NewAllowedPaths makes the directories and files absolute, from the current directory. It leaves out empty names of
// files, and refuses a dir that is not a directory.
func NewAllowedPaths(dirs, files []string) (*AllowedPaths, error) {
	p := &AllowedPaths{}
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		st, err := os.Stat(abs)
		if err != nil {
			return nil, err
		}
		if !st.IsDir() {
			return nil, fmt.Errorf("%s is not a directory", dir)
		}
		p.Dirs = append(p.Dirs, abs)
	}
	for _, file := range slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f == "" }) {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		p.Files = append(p.Files, abs)
	}
	return p, nil
}

// A notAllowedError is a file outside the allowed places. It does not tell whether the file exists.
type notAllowedError struct {
	Path string
	Dirs []string
	Why  string // empty: it is not below one of Dirs
}

func (e *notAllowedError) Error() string {
	switch {
	case len(e.Dirs) == 0:
		return fmt.Sprintf("%s may not be read: no directory of inputs was given to this control (--input-dir)", e.Path)
	case e.Why != "":
		return fmt.Sprintf("%s may not be read: %s", e.Path, e.Why)
	}
	const outside = "%s may not be read: it is not below a directory of inputs that was given to this control " +
		"(--input-dir: %s)"
	return fmt.Sprintf(outside, e.Path, strings.Join(e.Dirs, ", "))
}

// Open opens a regular file, as the function Open does, if it is in one of the places, and returns its absolute name.
// It looks for a relative name in each directory in turn. A ".." or a symbolic link that leads out of the directory is
// a *notAllowedError.
func (p *AllowedPaths) Open(path string) (*os.File, string, error) {
	if p == nil {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, path, err
		}
		f, err := Open(abs)
		return f, abs, err
	}
	if abs, err := filepath.Abs(path); err == nil && slices.Contains(p.Files, abs) {
		f, err := Open(abs)
		return f, abs, err
	}
	var missing error
	for _, dir := range p.Dirs {
		rel := path
		if filepath.IsAbs(path) {
			var err error
			if rel, err = filepath.Rel(dir, path); err != nil {
				continue
			}
		}
		if !filepath.IsLocal(rel) {
			continue
		}
		f, err := openBelow(dir, rel)
		if err == nil {
			return f, filepath.Join(dir, rel), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, path, err
		}
		if missing == nil {
			missing = err
		}
	}
	if missing != nil {
		return nil, path, missing
	}
	return nil, path, &notAllowedError{Path: path, Dirs: p.Dirs}
}

// openBelow opens a regular file below a directory; no link in rel may lead out of it.
func openBelow(dir, rel string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // the opened file stays open
	f, err := openChecked(rel, root.Stat, func(name string) (*os.File, error) { return root.OpenFile(name, openFlags, 0) })
	var path *fs.PathError
	var other *NotRegularError
	var errno syscall.Errno // an error of the system; the one for a name that leads out comes from os.Root
	switch {
	case errors.As(err, &other):
		other.Path = filepath.Join(dir, rel)
	case errors.As(err, &path) && !errors.As(path.Err, &errno):
		why := "a symbolic link leads out of " + dir
		return nil, &notAllowedError{Path: filepath.Join(dir, rel), Dirs: []string{dir}, Why: why}
	case errors.As(err, &path):
		return nil, &fs.PathError{Op: path.Op, Path: filepath.Join(dir, rel), Err: path.Err}
	}
	return f, err
}
