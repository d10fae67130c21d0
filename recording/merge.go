package recording

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The way of data into a merged file, one goroutine:
//
//  1. MEPs are read from the segments in order (inorder.go), and each is checked by the CRC in its segment's index
//  2. they are written to a temporary file, and their entries to its index. Both have the name of the final file with
//     mergingSuffix; the header of the index, which is written first, says to which run they belong
//  3. when all is on the disk the file is read back once
//  4. manifest, index and file get their names, in this order; then the manifest of the run says so
//  5. the segments are removed
//
// If a merge was killed before the file had its name, the next one begins anew. If it was killed later, the next one
// finds a file that matches its manifest, and goes on with the remaining steps.
const (
	mergeBufferBytes = 1 << 20
	// mergingSuffix follows the name of a merged file that is not complete.
	mergingSuffix = ".merging"
	// mergeLock is the file in the directory of a run that a merge of the run locks.
	mergeLock = "merge.lock"
)

// MergeOptions say what Merge does besides making the file.
type MergeOptions struct {
	// Remove removes the segments when the file is complete, on the disk and compared.
	Remove bool
	// Overwrite replaces a file of that name.
	Overwrite bool
	// Progress is called with what is being done, and how many bytes of how many are done.
	Progress func(what string, done, total int64)

	faultAfter func(step string) error // tests end a merge after a step, with errKilled as a kill would
	planMEPs   uint64                  // MEPs that are held in memory; zero means spanMEPs
	// cannotReserve makes a test's file system one that cannot reserve room.
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

// An unsoundError says that a recording cannot be merged, because its files have problems.
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

// Merge makes one file in event order from all segments of a run: of each MEP the highest attempt. dir is the
// directory of the run, or a directory of outputs with one run in it. The file gets its name only when it is complete,
// on the disk, and each MEP of it was checked by the index of its segment; its manifest and its index stand beside it.
// Only then, with Remove, are the segments removed.
//
// Merge needs room for a second copy of the data. Too little is a *spaceError before anything is written. If a Merge
// was interrupted at any point, calling it again comes to the same end. After an error of type *unsoundError,
// *nameInUseError, *spaceError or *Problem all segments are as they were.
func Merge(ctx context.Context, dir, dst string, o MergeOptions) (Merged, error) {
	m := &merge{o: o}
	emptied, err := m.findRun(dir, dst)
	if err != nil {
		return Merged{}, err
	}
	if emptied {
		return m.earlierResult(ctx)
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
	if !errors.Is(err, errKilled) {
		m.removeLock()
	}
	return merged, err
}

type merge struct {
	dir, dst string // absolute
	o        MergeOptions
	c        *Contents
}

// findRun finds the run. emptied says that only the merged file is left of it.
func (m *merge) findRun(dir, dst string) (emptied bool, err error) {
	if m.dst, err = filepath.Abs(dst); err == nil {
		m.dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return false, err
	}
	runs, err := findRuns(m.dir)
	if len(runs) == 1 && err == nil {
		m.dir = runs[0]
	}
	switch {
	case len(runs) <= 1 && pathExists(m.dst) && pathExists(m.dst+manifestSuffix) && isEmptyRun(m.dir):
		return true, nil
	case err != nil:
		return false, err
	case len(runs) > 1:
		return false, fmt.Errorf("%s has %d runs, %s to %s: name one of them, each makes a file of its own", m.dir, len(runs),
			filepath.Base(runs[0]), filepath.Base(runs[len(runs)-1]))
	case isDir(m.dir) != nil:
		return false, fmt.Errorf("%s is a file, not the directory of a run", m.dir)
	}
	return false, nil
}

// isEmptyRun says that dir does not exist, or has no file of a recording.
func isEmptyRun(dir string) bool {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != mergeLock {
			return false
		}
	}
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// earlierResult returns the result of a merge that emptied the directory of its run.
func (m *merge) earlierResult(ctx context.Context) (Merged, error) {
	c, err := readMerged(ctx, m.dst, false)
	if err == nil {
		err = c.checkSound(m.dst)
	}
	if err != nil {
		return Merged{}, err
	}
	if run, ok := ParseRunDir(m.dir); ok && run != c.Manifest.Run {
		return Merged{}, fmt.Errorf("%s is empty, and %s is of run %d", m.dir, m.dst, c.Manifest.Run)
	} else if ok {
		m.removeLock()
	}
	return *c.Manifest.Merged, nil
}

// removeLock removes the lock file, which the next merge makes again; then the directory of a run that a merge has
// emptied, and its parent if it was made only for the segments.
func (m *merge) removeLock() {
	_ = os.Remove(filepath.Join(m.dir, mergeLock))
	_ = os.Remove(m.dir) // fails if the directory is not empty
	if parent := filepath.Dir(m.dir); strings.HasSuffix(parent, SegmentsSuffix) {
		_ = os.Remove(parent)
	}
}

// checkSound returns an error if the recording in dir has problems. It names one that Recover does not repair, if
// there is one.
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

// run does the steps that no earlier merge has done.
func (m *merge) run(ctx context.Context) (Merged, error) {
	c, err := readAt(ctx, m.dir, false)
	if err == nil {
		err = c.checkSound(m.dir)
	}
	if err == nil && c.removedMEPs != nil {
		err = fmt.Errorf("%s is a backlog, of which %d MEPs are drained and gone: merge what the second filter wrote", m.dir,
			c.removedMEPs.MEPs())
	}
	if err == nil && c.Merged != nil && c.Manifest.Merged.Path != m.dst {
		err = fmt.Errorf("run %d was merged into %s, and segments of it are gone: copy that file", c.Manifest.Run,
			c.Manifest.Merged.Path)
	}
	if err != nil {
		return Merged{}, err
	}
	m.c = c
	merged, isOurs, err := m.findMade(ctx)
	if merged == nil && err == nil {
		merged, err = m.makeFile(ctx, isOurs)
	}
	if err == nil {
		err = m.finish(merged)
	}
	if err != nil {
		return Merged{}, err
	}
	return *merged, nil
}

// makeFile makes the file and gives it its name.
func (m *merge) makeFile(ctx context.Context, isOurs bool) (*Merged, error) {
	planMEPs := cmp.Or(m.o.planMEPs, spanMEPs)
	if err := m.checkNames(isOurs); err != nil {
		return nil, err
	}
	order, err := newMEPOrder(m.c, planMEPs, false)
	if err != nil {
		return nil, err
	}
	defer order.close()
	merged, err := m.writeFile(ctx, order)
	if err == nil {
		err = m.checkNames(isOurs) // files that came meanwhile keep their manifest and index, too
	}
	if err == nil {
		err = m.publish(merged)
	}
	if isDiskFull(err) {
		space, also := m.checkSpace()
		err = cmp.Or(also, error(space))
	}
	if err != nil && !errors.Is(err, errKilled) {
		err = errors.Join(err, m.removeTemporary())
	}
	return merged, err
}

// removeTemporary removes the temporary files of a merge of this run.
func (m *merge) removeTemporary() (err error) {
	for _, suffix := range []string{"", IndexSuffix, manifestSuffix} { // the index tells whose they are
		err = errors.Join(err, removeFile(m.dst+mergingSuffix+suffix))
	}
	return err
}

// publish gives a complete file its name, after its manifest and its index have theirs.
func (m *merge) publish(merged *Merged) error {
	manifest := *m.c.Manifest
	manifest.Merged = merged
	b, err := json.MarshalIndent(&manifest, "", "  ")
	if err != nil {
		return err
	}
	temporary := m.dst + mergingSuffix
	return m.runSteps(
		mergeStep{"manifest beside", func() error { return replaceFile(m.dst+manifestSuffix, append(b, '\n')) }},
		mergeStep{"index named", func() error { return os.Rename(temporary+IndexSuffix, m.dst+IndexSuffix) }},
		mergeStep{"named", func() error {
			if m.o.Overwrite {
				return os.Rename(temporary, m.dst)
			}
			err := RenameNoReplace(temporary, m.dst)
			if errors.Is(err, fs.ErrExist) {
				return &nameInUseError{Path: m.dst, What: " since a moment ago", Hint: "give another path, or --overwrite"}
			}
			return err
		}},
	)
}

// finish records in the manifest of the run that it is merged, and removes files that are no longer needed.
func (m *merge) finish(merged *Merged) error {
	steps := []mergeStep{
		{"on the disk", func() error { return SyncDir(filepath.Dir(m.dst)) }},
		{"in the manifest", func() error {
			return UpdateManifest(m.dir, func(in *Manifest) error { in.Merged = merged; return nil })
		}},
		{"temporary files removed", m.removeTemporary},
	}
	if m.o.Remove {
		steps = append(steps, mergeStep{"segments removed", m.removeSegments})
	}
	return m.runSteps(steps...)
}

// removeSegments removes the segments that the merged file has, then the manifest if no other file is left.
func (m *merge) removeSegments() error {
	for s := range m.c.Manifest.AllSegments {
		id, _, _ := ParseSegment(s.Name) // parseManifest has checked it
		for _, name := range []string{id.Name(), id.Index()} {
			if err := removeFile(filepath.Join(m.dir, name)); err != nil {
				return fmt.Errorf("%s is whole, but a segment of it cannot be removed: %w", m.dst, err)
			}
			if err := m.faultPoint("removed " + name); err != nil {
				return err
			}
		}
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	ours := []string{filepath.Base(tempPath(m.dir)), ReserveName, LockName, ManifestName}
	if st, err := os.Lstat(filepath.Join(m.dir, drainedName)); err == nil && st.Size() == 0 { // nothing was drained
		ours = append([]string{drainedName}, ours...)
	}
	for _, e := range entries {
		if e.Name() != mergeLock && !slices.Contains(ours, e.Name()) {
			return nil // a tail, or a file that is not Ringlet's, is left: the manifest stays with it
		}
	}
	for _, name := range ours {
		if err := removeFile(filepath.Join(m.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// A mergeStep is one change that a merge makes.
type mergeStep struct {
	what string
	do   func() error
}

// runSteps does steps in turn. Tests end a merge after each.
func (m *merge) runSteps(steps ...mergeStep) error {
	for _, s := range steps {
		if err := s.do(); err != nil {
			return err
		}
		if err := m.faultPoint(s.what); err != nil {
			return err
		}
	}
	return nil
}

// faultPoint lets tests end a merge.
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
