package conversion

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"

	"ringlet/convert/input"
	"ringlet/internal/safeopen"
)

// journalName is the journal in a directory. Readers of data sets ignore names that begin with an underscore.
const journalName = "_convert.json"

const (
	journalVersion = 1
	badNamed       = 64 // bad units that the journal names
	maxJournal     = 64 << 20
)

// state is the journal.
type state struct {
	Version  int             `json:"version"`
	Settings settings        `json:"settings"`
	About    json.RawMessage `json:"about,omitempty"`
	Next     input.Position  `json:"next"` // where reading continues
	Part     int             `json:"part"` // number of the next part
	Result
	BadFirst []string `json:"bad_first,omitempty"`
	Files    []made   `json:"files"` // complete files
	Done     bool     `json:"done"`
}

// settings must be equal for a conversion to be resumed.
type settings struct {
	Inputs []string `json:"inputs"`
	To     string   `json:"to"`
	Banks  bool     `json:"banks"`
	Run    uint32   `json:"run_number"`
	Once   bool     `json:"once,omitempty"`
}

// made is a complete file.
type made struct {
	Name  string `json:"name"`
	Rows  uint64 `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// directory converts to a directory of parts.
func (j *job) directory(ctx context.Context, in *input.Inputs) (Result, error) {
	j.dir = j.o.Output + partialSuffix
	if err := makeItself(j.dir); err != nil {
		return Result{}, err
	}
	lock, err := os.Open(j.dir)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = lock.Close() }() // held only for its lock
	if err := seize(lock); err != nil {
		return Result{}, err
	}
	if err := j.resume(); err != nil {
		return Result{}, err
	}
	if !j.state.Done {
		err := in.Each(ctx, j.state.Next, j)
		if err == nil {
			err = j.end()
		}
		if err != nil {
			return j.state.Result, errors.Join(err, j.abandon())
		}
	}
	return j.state.Result, j.rename(j.dir)
}

// abandon closes the open tables after an error. If no part is complete, it removes the directory: there is nothing to
// resume.
func (j *job) abandon() error {
	for _, t := range j.tables {
		t.out.Abandon()
	}
	if j.state.Part > 0 {
		return nil
	}
	return os.RemoveAll(j.dir)
}

// end closes the last parts. A conversion without rows gets an empty table, so that readers find the columns.
func (j *job) end() error {
	if j.state.Rows == 0 && !j.o.Banks {
		if _, err := j.table(0); err != nil {
			return err
		}
	}
	if err := errors.Join(j.closeAll(), j.writeSlow()); err != nil {
		return err
	}
	j.state.Done = true
	return j.save()
}

// resume loads the journal of an earlier conversion, if there is one, and removes its incomplete files.
func (j *job) resume() error {
	path := filepath.Join(j.dir, journalName)
	b, err := safeopen.ReadNoFollow(path, maxJournal)
	fresh := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !fresh:
		return err
	case fresh:
		if err := j.ours(); err != nil {
			return err
		}
	case !j.o.Force:
		var before state
		if err := json.Unmarshal(b, &before); err != nil || before.Version != journalVersion {
			return &OutputExistsError{path, "is not a journal that this program wrote: remove it, or --force to begin anew"}
		}
		if !reflect.DeepEqual(before.Settings, j.state.Settings) {
			return &OutputExistsError{j.dir, "is of a conversion of other input, or with other settings: remove it, " +
				"or --force to begin anew"}
		}
		j.state = before
		j.state.Resumed = before.Read
	}
	j.state.Version = journalVersion
	if err := j.clean(); err != nil {
		return err
	}
	return j.save()
}

// ours refuses a directory that has files but no journal: no conversion has made it.
func (j *job) ours() error {
	names, err := os.ReadDir(j.dir)
	if err == nil && len(names) > 0 && !(len(names) == 1 && names[0].Name() == journalName+".tmp") {
		return &OutputExistsError{j.dir, "is there, and was not made by a conversion: move it away"}
	}
	return err
}

// clean removes all files but the complete ones, which must have the size that the journal says.
func (j *job) clean() error {
	keep := map[string]bool{filepath.Join(j.dir, journalName): true}
	for _, f := range j.state.Files {
		path := filepath.Join(j.dir, f.Name)
		st, err := safeopen.StatNoFollow(path)
		if err != nil || st.Size() != f.Bytes {
			return &OutputExistsError{path, "is not as the conversion left it: --force begins anew"}
		}
		keep[path] = true
	}
	return filepath.WalkDir(j.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || keep[path] {
			return err
		}
		return os.Remove(path)
	})
}

// makeItself makes a directory. It accepts an existing one, but no link to one, since files in it are removed.
func makeItself(dir string) error {
	err := os.Mkdir(dir, 0o777)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(dir)
	if err == nil && !st.IsDir() {
		err = &OutputExistsError{dir, "is " + safeopen.FileKind(st.Mode()) + ", not a directory: move it away"}
	}
	return err
}

// save replaces the journal atomically.
func (j *job) save() error {
	slices.SortFunc(j.state.Files, func(a, b made) int { return cmp.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(&j.state, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(j.dir, journalName)
	b = append(bytes.TrimSpace(b), '\n')
	if err := safeopen.WriteNoFollow(path+".tmp", bytes.NewReader(b), 0o666); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(j.dir)
}

// seize takes the lock of an output.
func seize(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another process converts to %s: wait for it", f.Name())
	} else if err != nil {
		return fmt.Errorf("cannot lock %s: %w", f.Name(), err)
	}
	return nil
}

// place renames from to to. If to exists, it fails without force, and replaces it with force.
func place(from, to string, force bool) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system has no RENAME_NOREPLACE
		if _, err := os.Lstat(to); err == nil {
			return swap(from, to, force)
		}
		return os.Rename(from, to)
	}
	if errors.Is(err, unix.EEXIST) {
		return swap(from, to, force)
	}
	return err
}

// swap replaces to by from; with force only.
func swap(from, to string, force bool) error {
	if !force {
		return fs.ErrExist
	}
	st, err := os.Lstat(to)
	if err != nil || !st.IsDir() {
		return os.Rename(from, to)
	}
	old := to + ".replaced"
	if err := os.Rename(to, old); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Rename(old, to))
	}
	return os.RemoveAll(old)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
