package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ringlet/internal/safeopen"
)

// MergeOptions say what Merge does beside making the file.
type MergeOptions struct {
	// Remove removes the segments when the file is whole, on the disk and compared.
	Remove bool
	// Overwrite replaces what stands under the name of the file.
	Overwrite bool
	// Progress is told what is done, and how many of how many bytes of it are.
	Progress func(what string, done, total int64)

	faultAfter func(step string) error // tests end a merge at a step as a kill would
	planMEPs   uint64                  // MEPs of a plan in memory; zero means spanMEPs
	// cannotReserve is a file system that cannot reserve room.
	cannotReserve bool
}

// A spaceError says that a merged file does not fit on its file system.
type spaceError struct {
	Path, Dir  string
	Need, Free int64 // bytes
}

func (e *spaceError) Error() string {
	return fmt.Sprintf("there is no room for %s: it takes %d bytes more, %d are free; all segments are in %s as they "+
		"were: "+
		"make room, then run 'ringlet merge %s %s', or give it a path on another disk", e.Path, e.Need, e.Free, e.Dir,
		e.Dir, e.Path)
}

// An unsoundError says that a recording cannot be merged, because something is wrong with its files.
type unsoundError struct {
	Dir   string
	First Problem
	Count uint64
}

func (e *unsoundError) Error() string {
	do := "'ringlet verify " + e.Dir + "' names all of it"
	switch {
	case e.First.Kind == BeingWritten:
		do = "wait until the run has ended"
	case e.First.Kind.isRecoverable():
		do = "'ringlet recover " + e.Dir + "' puts it right"
	}
	if e.Count > 1 {
		return fmt.Sprintf("%s cannot be merged: %v, and %d more: %s", e.Dir, &e.First, e.Count-1, do)
	}
	return fmt.Sprintf("%s cannot be merged: %v: %s", e.Dir, &e.First, do)
}

// Merge makes one file in event order of all segments of a run: of each MEP the highest attempt. dir is the directory
// of the run, or of outputs with one run in it. The file comes to stand under its name only when it is whole, on the
// disk, and each MEP of it was held against the index of its segment; its manifest and its index stand beside it. Only
// then, with Remove, the segments go.
//
// It needs room for the data once more. Too little is a *spaceError before anything is written. Ended at any point, by
// whatever, and called again, it goes on where it was. Errors of type *unsoundError, *nameInUseError, *spaceError and
// *Problem harm nothing.
func Merge(ctx context.Context, dir, dst string, o MergeOptions) (Merged, error) {
	m, err := newMerge(dir, dst, o)
	if err != nil {
		return Merged{}, err
	}
	if m.dir == "" {
		return m.earlierResult()
	}
	lock, err := openExclusive(filepath.Join(m.dir, mergeLock))
	if errors.Is(err, errLocked) {
		return Merged{}, fmt.Errorf("%s is being merged by another process: wait for that one", m.dir)
	}
	if err != nil {
		return Merged{}, err
	}
	defer func() { _ = lock.Close() }() // nothing was written
	merged, err := m.run(ctx)
	if err == nil || m.namesReleased {
		_ = os.Remove(lock.Name()) // a name without a meaning, which the next merge takes again
		removeEmptyDirs(m.dir)
	}
	return merged, err
}

// mergeLock is the file in the directory of a run that its merge holds the lock of.
const mergeLock = "merge.lock"

// merge is a merge under way.
type merge struct {
	dir, dst      string // absolute
	o             MergeOptions
	c             *Contents
	plan          *mergePlan
	emptiedDir    string // directory from which an earlier merge took all but its lock
	isPublished   bool   // the file has its name from an earlier merge
	namesReleased bool   // the names of the merge are free: nothing of it is left
}

// newMerge finds the run. Without one, but with a merged file, m.dir is empty.
func newMerge(dir, dst string, o MergeOptions) (m *merge, err error) {
	if o.planMEPs == 0 {
		o.planMEPs = spanMEPs
	}
	m = &merge{o: o}
	if m.dst, err = filepath.Abs(dst); err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	runs, err := findRuns(dir)
	switch {
	case err != nil && m.hasFile("") && m.hasFile(manifestSuffix) && isEmptyRun(dir):
		return m, nil
	case err != nil:
		return nil, err
	case len(runs) == 1 && m.hasFile("") && m.hasFile(manifestSuffix) && isEmptyRun(runs[0]):
		m.emptiedDir = runs[0]
		return m, nil
	case len(runs) > 1:
		return nil, fmt.Errorf("%s has %d runs, %s to %s: name one of them, each makes a file of its own", dir, len(runs),
			filepath.Base(runs[0]), filepath.Base(runs[len(runs)-1]))
	case runs[0] == dir && isDir(dir) != nil:
		return nil, fmt.Errorf("%s is a file, not the directory of a run", dir)
	}
	m.dir = runs[0]
	return m, nil
}

// isEmptyRun says that dir is gone, or has nothing of a recording any more.
func isEmptyRun(dir string) bool {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != mergeLock {
			return false
		}
	}
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

func (m *merge) path(suffix string) string { return m.dst + suffix }

func (m *merge) hasFile(suffix string) bool { return pathExists(m.path(suffix)) }

func (m *merge) syncDir() error { return SyncDir(filepath.Dir(m.dst)) }

// faultPoint is where tests end a merge.
func (m *merge) faultPoint(what string) error {
	if m.o.faultAfter == nil {
		return nil
	}
	return m.o.faultAfter(what)
}

func (m *merge) progress(what string, done, total int64) {
	if m.o.Progress != nil {
		m.o.Progress(what, done, total)
	}
}

// earlierResult is the result of a merge that emptied the directory of its run.
func (m *merge) earlierResult() (Merged, error) {
	c, err := readMerged(context.Background(), m.dst, false)
	if err == nil {
		err = c.checkSound(m.dst)
	}
	if err != nil {
		return Merged{}, err
	}
	if m.emptiedDir != "" {
		if run, ok := ParseRunDir(m.emptiedDir); ok && run != c.Manifest.Run {
			return Merged{}, fmt.Errorf("%s is empty, and %s is of run %d", m.emptiedDir, m.dst, c.Manifest.Run)
		}
		_ = os.Remove(filepath.Join(m.emptiedDir, mergeLock)) // a name without a meaning
		removeEmptyDirs(m.emptiedDir)
	}
	return *c.Manifest.Merged, nil
}

// checkSound is the error of a recording in dir with problems. It names that which Recover does not mend, if there is
// one.
func (c *Contents) checkSound(dir string) error {
	var first *Problem
	for p := range c.AllProblems {
		if first == nil || first.Kind.isRecoverable() && !p.Kind.isRecoverable() {
			first = p
		}
	}
	if first == nil {
		return nil
	}
	return &unsoundError{Dir: dir, First: *first, Count: c.ProblemCount()}
}

// run goes through the steps. What an earlier merge did is found, and not done again.
func (m *merge) run(ctx context.Context) (Merged, error) {
	c, err := readAt(ctx, m.dir, false)
	if err == nil {
		err = c.checkSound(m.dir)
	}
	if err == nil && c.removedMEPs != nil {
		err = fmt.Errorf("%s is a backlog, of which %d MEPs are drained and gone: merge what the second filter wrote", m.dir,
			c.removedMEPs.MEPs())
	}
	if err != nil {
		return Merged{}, err
	}
	if m.c = c; c.Merged != nil { // some segments are gone: that merge was at its last step
		return m.resumeRemoving(ctx)
	}
	if err := m.checkNames(); err != nil {
		return Merged{}, err
	}
	if m.plan, err = newPlan(ctx, c, m.o.planMEPs, false); err != nil {
		return Merged{}, err
	}
	began, err := m.claimNames()
	if err == nil {
		err = m.faultPoint("claimed")
	}
	if err != nil {
		return Merged{}, err
	}
	merged, err := m.makeFile(ctx, began)
	if err != nil {
		return Merged{}, m.giveUp(err)
	}
	if err := m.publish(merged); err != nil {
		return Merged{}, err
	}
	if m.o.Remove {
		err = m.removeSegments()
	}
	return *merged, err
}

// checkNames refuses to replace files that are not of this merge.
func (m *merge) checkNames() error {
	if m.o.Overwrite {
		return nil
	}
	if st, err := os.Lstat(m.dst); err == nil && !st.Mode().IsRegular() {
		return &nameInUseError{
			Path: m.dst,
			What: " and is " + safeopen.FileKind(st.Mode()),
			Hint: "give another path",
		}
	}
	ours := m.c.Manifest.Merged != nil && m.c.Manifest.Merged.Path == m.dst
	if j, err := readJournal(m.path(mergingSuffix + manifestSuffix)); err == nil && j != nil {
		ours = ours || j.Key == m.c.Manifest.Key
	}
	if ours {
		return nil
	}
	for _, suffix := range []string{"", IndexSuffix, manifestSuffix} {
		if m.hasFile(suffix) {
			return &nameInUseError{Path: m.path(suffix), Hint: "give another path, or --overwrite"}
		}
	}
	return nil
}

// giveUp cleans up after an error where nothing can go on from what there is. After others everything stays for the
// next merge.
func (m *merge) giveUp(err error) error {
	if isDiskFull(err) {
		err = m.diskFilledError()
	}
	var space *spaceError
	var problem *Problem
	var nameTaken *nameInUseError
	if !errors.As(err, &space) && !errors.As(err, &problem) && !errors.As(err, &nameTaken) {
		return err
	}
	m.namesReleased = true
	for _, suffix := range []string{mergingSuffix, mergingSuffix + IndexSuffix, mergingSuffix + manifestSuffix} {
		err = errors.Join(err, removeFile(m.path(suffix)))
	}
	return err
}

// removeEmptyDirs removes the directory of a run that a merge has emptied, and the one above if it was made for nothing
// else.
func removeEmptyDirs(dir string) {
	_ = os.Remove(dir) // fails where there is something in it
	if parent := filepath.Dir(dir); strings.HasSuffix(parent, SegmentsSuffix) {
		_ = os.Remove(parent)
	}
}
