package gen

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ringlet/recording"
)

// TruthPath is the file with the truth of a generated file: a line of JSON for each event, as its Content writes it.
func TruthPath(path string) string { return path + ".truth.jsonl" }

// truthFile is written under a temporary name.
type truthFile struct {
	path      string
	overwrite bool
	f         *os.File // nil when it is finished
	out       *bufio.Writer
}

func newTruthFile(path string, overwrite bool) (*truthFile, error) {
	if _, err := os.Lstat(path); err == nil && !overwrite {
		return nil, fmt.Errorf("the truth cannot be written: %s is there already: remove it, give another name, or overwrite",
			path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("the truth cannot be written: %w", err)
	}
	return &truthFile{
		path:      path,
		overwrite: overwrite,
		f:         f,
		out:       bufio.NewWriterSize(f, 1<<20),
	}, nil
}

// finish gives the file its name. Without overwrite it fails if another file has taken the name since.
func (t *truthFile) finish() error {
	if err := errors.Join(t.out.Flush(), t.f.Chmod(0o644), t.f.Sync()); err != nil {
		return fmt.Errorf("the truth cannot be written to %s: %w", t.path, err)
	}
	rename := recording.RenameNoReplace
	if t.overwrite {
		rename = os.Rename
	}
	if err := rename(t.f.Name(), t.path); err != nil {
		return fmt.Errorf("the truth cannot be written to %s: %w", t.path, err)
	}
	return t.abort()
}

// abort removes the file if it has no name yet.
func (t *truthFile) abort() error {
	if t.f == nil {
		return nil
	}
	err := os.Remove(t.f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // renamed
	}
	err = errors.Join(err, t.f.Close())
	t.f = nil
	return err
}
