package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"ringlet/internal/regular"
)

// name gives a compared file its name, and says in both manifests that it is there.
func (m *merge) name(merged *Merged) error {
	manifest := *m.c.Manifest
	manifest.Merged = merged
	b, err := json.MarshalIndent(&manifest, "", "  ")
	if err != nil {
		return err
	}
	if err := m.rename(mergingSuffix+IndexSuffix, IndexSuffix); err != nil {
		return err
	}
	if err := m.step("index named"); err != nil {
		return err
	}
	if err := replaceFile(m.path(manifestSuffix), append(b, '\n')); err != nil {
		return err
	}
	if err := m.step("manifest beside"); err != nil {
		return err
	}
	if !m.named {
		err = m.rename(mergingSuffix, "")
	} else if err = os.Remove(m.path(mergingSuffix)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	if err := m.step("named"); err != nil {
		return err
	}
	if err := m.syncDir(); err != nil {
		return err
	}
	err = Update(m.dir, func(in *Manifest) error { in.Merged = merged; return nil })
	if err == nil {
		err = m.step("in the manifest")
	}
	if err != nil {
		return err
	}
	if err := os.Remove(m.path(mergingSuffix + manifestSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return m.syncDir()
}

// rename gives a file beside the merged one its name. What stands there is replaced if it is of this merge, or with
// Overwrite; mayUse has looked, and the file itself is looked at again.
func (m *merge) rename(from, to string) error {
	if to != "" || m.o.Overwrite {
		return os.Rename(m.path(from), m.path(to))
	}
	err := RenameNew(m.path(from), m.path(to))
	if errors.Is(err, fs.ErrExist) {
		return &takenError{Path: m.dst, What: " since a moment ago", Hint: "give another path, or --overwrite"}
	}
	return err
}

// remove removes the segments that the merged file holds, then the manifest if nothing else is left.
func (m *merge) remove() error {
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
				if err := os.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("%s is whole, but a segment of it cannot be removed: %w", m.dst, err)
				}
				if err := m.step("removed " + name); err != nil {
					return err
				}
			}
		}
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case ManifestName, LockName, mergeLock, filepath.Base(tempPath(m.dir)):
		default:
			return nil // there is a tail, or something that is not Ringlet's: the manifest stays with it
		}
	}
	for _, name := range []string{filepath.Base(tempPath(m.dir)), LockName, ManifestName} {
		if err := os.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return m.step("directory empty")
}

// removeRest ends a merge that was ended while it removed segments: the merged file is read as a whole once more before
// the rest goes.
func (m *merge) removeRest(ctx context.Context) (Merged, error) {
	merged := m.c.Manifest.Merged
	if merged.Path != m.dst {
		return Merged{}, fmt.Errorf("run %d was merged into %s, and segments of it are gone: copy that file",
			m.c.Manifest.Run, merged.Path)
	}
	f, err := regular.Open(m.dst)
	if err != nil {
		return Merged{}, err
	}
	defer func() { _ = f.Close() }() // it was read
	crc, buf := uint32(0), make([]byte, windowBytes)
	for at := int64(0); ; {
		n, err := f.Read(buf)
		crc = crc32.Update(crc, Castagnoli, buf[:n])
		at += int64(n)
		if m.progress("compare", at, merged.Bytes); errors.Is(err, io.EOF) {
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return Merged{}, err
		}
	}
	if want, err := strconv.ParseUint(merged.CRC, 16, 32); err != nil || uint32(want) != crc {
		return Merged{}, &Problem{
			Kind: DamagedData,
			File: m.dst,
			Text: fmt.Sprintf("its CRC-32C is %08x, its manifest says %s; what is left of the segments in %s stays", crc,
				merged.CRC, m.dir),
		}
	}
	if !m.o.Remove {
		return *merged, nil
	}
	return *merged, m.remove()
}
