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

// AllowedPaths are where files may be taken from. Nil means anywhere; the zero value nowhere.
type AllowedPaths struct {
	Dirs  []string // absolute; what is below them
	Files []string // absolute; these besides
}

// NewAllowedPaths makes the directories and files absolute, from where the process stands now. An empty name is left
// out. A directory that is none is refused.
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

// A notAllowedError is a file that is not where files may be taken from. It does not say whether there is such a file.
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

// Open opens a regular file, as the function Open does, if it is in one of the places, and says what its absolute name
// is. A name that is not absolute is looked for in each directory in turn. Neither ".." nor a symbolic link leads out
// of a directory: *notAllowedError.
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

// openBelow opens a regular file of a directory, from which nothing leads out.
func openBelow(dir, rel string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // what was opened stays open
	f, err := openChecked(rel, root.Stat, func(name string) (*os.File, error) { return root.OpenFile(name, openFlags, 0) })
	var path *fs.PathError
	var other *NotRegularError
	var errno syscall.Errno // what the system says; that a name leads out says os.Root
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
