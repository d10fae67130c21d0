package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ringlet/internal/safeopen"
)

// An ExistsError says that another run of the same number is recorded in the output.
type ExistsError struct {
	Dir            string // directory of outputs
	Run            uint32
	Created        time.Time // of the recorded run; zero if it is unknown
	IsBeingWritten bool      // a process is writing to it
}

func (e *ExistsError) Error() string {
	when := ""
	if !e.Created.IsZero() {
		when = fmt.Sprintf(" (begun %s)", e.Created.Local().Format("2006-01-02 15:04:05"))
	}
	if e.IsBeingWritten {
		return fmt.Sprintf("run %d%s is being recorded in %s: give another run number or another output", e.Run, when, e.Dir)
	}
	return fmt.Sprintf("run %d is already recorded in %s%s: give another run number, another output or --overwrite",
		e.Run, e.Dir, when)
}

// OpenRun makes the directory of a run in dir, or joins it if it exists and has the same key: several builder units of
// a host, or of hosts with one file system, share it. It makes dir if it does not exist, but not the parent of dir. If
// the directory belongs to another run with the same number, the error is an *ExistsError; with overwrite, OpenRun
// removes its files unless one is being written. The manifest is taken from about, but for Version, ID, Builders,
// Verdict and Merged.
func OpenRun(dir string, about Manifest, overwrite bool) (runDir string, err error) {
	if !about.Format.Valid() {
		return "", fmt.Errorf("a run cannot be recorded as %v: it is one of mep, mdf, mfp", about.Format)
	}
	if err := makeDir(dir); err != nil {
		return "", err
	}
	runDir = RunDir(dir, about.Run)
	st, err := os.Lstat(runDir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := beginRun(dir, runDir, about); !errors.Is(err, fs.ErrExist) {
			return runDir, err
		}
	} else if err == nil && st.Mode()&fs.ModeSymlink != 0 {
		return "", &safeopen.SymlinkError{Path: runDir}
	}
	if err := isDir(runDir); err != nil {
		return "", err
	}
	return runDir, withRunLock(runDir, func() error { return openLocked(dir, runDir, about, overwrite) })
}

// openLocked does the part of OpenRun that needs the lock.
func openLocked(dir, runDir string, about Manifest, overwrite bool) error {
	m, err := Load(runDir)
	switch {
	case err == nil && m.Key == about.Key:
		return nil
	case err != nil && !overwrite && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	held, err := segmentFiles(runDir)
	if err != nil {
		return err
	}
	slow, err := slowDataFiles(runDir)
	if err != nil {
		return err
	}
	ours := m == nil && allOfKey(runDir, held, about.Key)
	if !ours && (m != nil || len(held) > 0) {
		held = append(append(held, drainedName), slow...)
		exists := &ExistsError{Dir: dir, Run: about.Run, IsBeingWritten: anyInUse(runDir, held)}
		if m != nil {
			exists.Created = m.Created
		}
		if !overwrite || exists.IsBeingWritten {
			return exists
		}
		for _, name := range held { // files that Ringlet did not make stay
			if err := removeFile(filepath.Join(runDir, name)); err != nil {
				return fmt.Errorf("run %d in %s cannot be overwritten: %w", about.Run, dir, err)
			}
		}
	}
	if err := storeManifest(runDir, newManifest(about)); err != nil {
		return err
	}
	return reserveManifest(runDir, len(about.Configuration))
}

// makingInfix is in the name of a run's directory while it is being made, before the ID of its manifest.
const makingInfix = ".making-"

// beginRun makes the directory of a run with its manifest in it; no process sees one without the other. The error is
// an fs.ErrExist if another process has made the directory meanwhile.
func beginRun(dir, runDir string, about Manifest) (err error) {
	m := newManifest(about)
	temp := runDir + makingInfix + m.ID
	if err := os.Mkdir(temp, 0o777); err != nil {
		return fmt.Errorf("output %s: the directory of run %d cannot be made: %w", dir, about.Run, err)
	}
	defer func() {
		if err != nil {
			removeUnfinished(temp)
		}
	}()
	if err := errors.Join(storeManifest(temp, m), reserveManifest(temp, len(about.Configuration))); err != nil {
		return err
	}
	if err := os.Rename(temp, runDir); err != nil {
		return err
	}
	removeStale(dir)
	return SyncDir(dir)
}

// unfinishedAge is the age from which on an unfinished directory counts as left by a killed process: making one takes
// milliseconds, or as long as a disk stalls.
const unfinishedAge = time.Hour

// removeStale removes directories that killed processes were making. They have never held anything but a manifest.
func removeStale(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the next run tries again
	}
	for _, e := range entries {
		run, _, unmade := strings.Cut(e.Name(), makingInfix)
		if _, ok := ParseRunDir(run); !ok || !unmade {
			continue
		}
		if info, err := e.Info(); err == nil && info.IsDir() && time.Since(info.ModTime()) > unfinishedAge {
			removeUnfinished(filepath.Join(dir, e.Name()))
		}
	}
}

// removeUnfinished removes a directory that never got the name of a run.
func removeUnfinished(temp string) {
	for _, name := range []string{tempPath(temp), reservePath(temp), manifestPath(temp), temp} {
		_ = os.Remove(name) // a file that cannot be removed does no harm
	}
}

// newManifest returns the manifest of a new run, which begins now if about gives no time.
func newManifest(about Manifest) *Manifest {
	if about.Created.IsZero() {
		about.Created = time.Now()
	}
	about.Version, about.ID, about.Created = manifestVersion, NewKey().String(), about.Created.UTC()
	about.Builders, about.Verdict, about.Merged = []Builder{}, nil, nil
	return &about
}

// makeDir makes a directory in an existing one and flushes its name to the disk. An existing directory is accepted.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o777)
	switch {
	case err == nil:
		return SyncDir(filepath.Dir(filepath.Clean(dir)))
	case errors.Is(err, fs.ErrExist):
		return isDir(dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("output %s: its parent %s does not exist: make that first, or correct the path", dir,
			filepath.Dir(filepath.Clean(dir)))
	}
	return fmt.Errorf("output %s: the directory cannot be made: %w", dir, err)
}

// segmentFiles returns the names of all files in runDir that belong to segments.
func segmentFiles(runDir string) (names []string, err error) {
	entries, err := os.ReadDir(runDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, _ := strings.CutSuffix(e.Name(), TailSuffix)
		_, _, isData := ParseSegment(data)
		if _, isIndex := parseIndex(data); (isData || isIndex) && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// allOfKey says whether every index among names belongs to the run with that key, and whether there is one if there
// are data.
func allOfKey(runDir string, names []string, key Key) bool {
	for _, name := range names {
		if _, isIndex := parseIndex(name); !isIndex {
			continue
		}
		if h, err := readHeader(filepath.Join(runDir, name)); err == nil && h.Key != key {
			return false
		}
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, IndexSuffix) }) || len(names) == 0
}

func anyInUse(runDir string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		_, isIndex := parseIndex(n)
		return (isIndex || n == drainedName) && isInUse(filepath.Join(runDir, n))
	})
}

// Runs returns the directories of the runs in dir, in order of number, and dir itself if it has a file of a run. With
// the error *safeopen.SymlinkError, which names a link in the place of a run, it returns those of the other runs.
func Runs(dir string) (runs []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	itself := false
	for _, e := range entries {
		if _, ok := ParseRunDir(e.Name()); ok && e.Type() == fs.ModeSymlink {
			err = &safeopen.SymlinkError{Path: filepath.Join(dir, e.Name())}
		}
		if _, ok := ParseRunDir(e.Name()); ok && e.IsDir() {
			runs = append(runs, filepath.Join(dir, e.Name()))
			continue
		}
		_, isIndex := parseIndex(e.Name())
		if _, _, isData := ParseSegment(e.Name()); e.Name() == ManifestName || isIndex || isData {
			itself = true
		}
	}
	if _, ok := ParseRunDir(filepath.Clean(dir)); ok && len(runs) == 0 {
		itself = true
	}
	slices.SortFunc(runs, func(a, b string) int {
		x, _ := ParseRunDir(a)
		y, _ := ParseRunDir(b)
		return int(int64(x) - int64(y))
	})
	if itself { // a run in dir itself does not hide the runs below it
		runs = append(runs, dir)
	}
	return runs, err
}

// LastRun returns the highest number of a run in dir; 0 if there is none, or no dir.
func LastRun(dir string) (last uint32, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if run, ok := ParseRunDir(e.Name()); ok {
			last = max(last, run)
		}
	}
	return last, err
}
