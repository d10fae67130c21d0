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
	"strconv"

	"ringlet/internal/safeopen"
)

// A mergeStep is one change that a merge makes.
type mergeStep struct {
	what string
	do   func() error
}

// runSteps takes steps in turn. Behind each is where tests end a merge.
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

// publish gives a compared file its name, and says in both manifests that it is there.
func (m *merge) publish(merged *Merged) error {
	manifest := *m.c.Manifest
	manifest.Merged = merged
	b, err := json.MarshalIndent(&manifest, "", "  ")
	if err != nil {
		return err
	}
	return m.runSteps(
		mergeStep{"index named", func() error { return os.Rename(m.path(mergingSuffix+IndexSuffix), m.path(IndexSuffix)) }},
		mergeStep{"manifest beside", func() error { return replaceFile(m.path(manifestSuffix), append(b, '\n')) }},
		mergeStep{"named", m.renameToFinal},
		mergeStep{"in the manifest", func() error {
			if err := m.syncDir(); err != nil {
				return err
			}
			return UpdateManifest(m.dir, func(in *Manifest) error { in.Merged = merged; return nil })
		}},
		mergeStep{"journal removed", func() error {
			return cmp.Or(removeFile(m.path(mergingSuffix+manifestSuffix)), m.syncDir())
		}},
	)
}

// renameToFinal renames the file, if an earlier merge has not. What stands there is replaced with Overwrite only:
// checkNames has looked, and it is looked at again.
func (m *merge) renameToFinal() error {
	switch {
	case m.isPublished:
		return removeFile(m.path(mergingSuffix))
	case m.o.Overwrite:
		return os.Rename(m.path(mergingSuffix), m.dst)
	}
	err := RenameNoReplace(m.path(mergingSuffix), m.dst)
	if errors.Is(err, fs.ErrExist) {
		return &nameInUseError{Path: m.dst, What: " since a moment ago", Hint: "give another path, or --overwrite"}
	}
	return err
}

// removeSegments removes the segments that the merged file holds, then the manifest if nothing else is left.
func (m *merge) removeSegments() error {
	format, _ := ParseFormat(m.c.Manifest.Format) // Read has seen it
	for i := range m.c.Manifest.Builders {
		b := &m.c.Manifest.Builders[i]
		for j := range b.Segments {
			id := SegmentID{
				Builder: b.Index,
				Number:  b.Segments[j].Number,
				Format:  format,
			}
			for _, name := range []string{id.Name(), id.Index()} {
				if err := removeFile(filepath.Join(m.dir, name)); err != nil {
					return fmt.Errorf("%s is whole, but a segment of it cannot be removed: %w", m.dst, err)
				}
				if err := m.faultPoint("removed " + name); err != nil {
					return err
				}
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
			return nil // there is a tail, or something that is not Ringlet's: the manifest stays with it
		}
	}
	for _, name := range ours {
		if err := removeFile(filepath.Join(m.dir, name)); err != nil {
			return err
		}
	}
	return m.faultPoint("directory empty")
}

// resumeRemoving ends a merge that was ended while it removed segments: the merged file is read as a whole once more
// before the rest goes.
func (m *merge) resumeRemoving(ctx context.Context) (Merged, error) {
	merged := m.c.Manifest.Merged
	if merged.Path != m.dst {
		return Merged{}, fmt.Errorf("run %d was merged into %s, and segments of it are gone: copy that file",
			m.c.Manifest.Run, merged.Path)
	}
	f, err := safeopen.OpenNoFollow(m.dst)
	if err != nil {
		return Merged{}, err
	}
	defer func() { _ = f.Close() }() // it was read
	st, err := f.Stat()
	if err != nil {
		return Merged{}, err
	}
	w := &crcReader{f: f}
	for w.crcEnd < st.Size() {
		if err := w.extendCRC(ctx, min(w.crcEnd+readBytes, st.Size())); err != nil {
			return Merged{}, err
		}
		m.progress("compare", w.crcEnd, merged.Bytes)
	}
	if want, err := strconv.ParseUint(merged.CRC, 16, 32); err != nil || uint32(want) != w.crc {
		return Merged{}, &Problem{
			Kind: DamagedData,
			File: m.dst,
			Text: fmt.Sprintf("its CRC-32C is %08x, its manifest says %s; what is left of the segments in %s stays", w.crc,
				merged.CRC, m.dir),
		}
	}
	if !m.o.Remove {
		return *merged, nil
	}
	return *merged, m.removeSegments()
}
