package recording

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/crc32c"
	"ringlet/internal/safeopen"
)

// makeFile makes the file under its temporary name, whole, on the disk, and compared. If the file is there under its
// own name from an earlier merge, and agrees, that is it.
func (m *merge) makeFile(ctx context.Context, began bool) (*Merged, error) {
	ours := began || m.c.Manifest.Merged != nil && m.c.Manifest.Merged.Path == m.dst
	if st, err := os.Lstat(m.dst); err == nil && ours && st.Size() == m.plan.mergedBytes {
		merged, err := m.verifyCopy(ctx, m.dst)
		var problem *Problem
		if !errors.As(err, &problem) {
			m.isPublished = err == nil
			return merged, err
		}
	}
	if m.hasFile("") && !m.o.Overwrite {
		return nil, &nameInUseError{Path: m.dst, What: " and is not this run in order",
			Hint: "give another path, or --overwrite"}
	}
	unchanged, err := m.plan.unchangedSegment(ctx)
	if err != nil {
		return nil, err
	}
	if unchanged == nil || !m.shareSegment(unchanged) {
		if err := m.copyData(ctx); err != nil {
			return nil, err
		}
	}
	if err := m.faultPoint("copied"); err != nil {
		return nil, err
	}
	if err := syncFile(m.path(mergingSuffix)); err != nil {
		return nil, err
	}
	if err := m.faultPoint("synchronised"); err != nil {
		return nil, err
	}
	return m.verifyCopy(ctx, m.path(mergingSuffix))
}

// shareSegment makes a segment that is in order as it is the merged file without copying: by a second name where the
// first one will go, by shared blocks where the file system can.
func (m *merge) shareSegment(s *SegmentContents) bool {
	temp, from := m.path(mergingSuffix), filepath.Join(m.dir, s.Name)
	if m.o.Remove {
		second := m.path(mergingSuffix + ".tmp")
		_ = os.Remove(second) // of an earlier merge; else Link says that it is there
		return os.Link(from, second) == nil && os.Rename(second, temp) == nil
	}
	if hasSecondName(temp) && os.Remove(temp) != nil {
		return false
	}
	in, err := safeopen.OpenNoFollow(from)
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }() // it was read
	out, err := safeopen.OpenFileNoFollow(temp, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return false
	}
	err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	return errors.Join(err, out.Close()) == nil
}

// hasSecondName tells that a file has another name, too: that of a segment.
func hasSecondName(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Nlink > 1
}

// copyData writes the temporary file, or what lacks of it.
func (m *merge) copyData(ctx context.Context) (err error) {
	temp := m.path(mergingSuffix)
	if hasSecondName(temp) { // a segment is not written to
		if err := os.Remove(temp); err != nil {
			return err
		}
	}
	out, err := safeopen.OpenFileNoFollow(temp, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err = m.reserveSpace(out); err == nil {
		err = m.faultPoint("room")
	}
	if err != nil {
		return err
	}
	k := &copier{
		dir:     m.dir,
		sources: m.plan.segments,
		out:     out,
		open:    map[int]*crcReader{},
		afterCopy: func(done int64) error {
			m.progress("copy", done, m.plan.mergedBytes)
			return m.faultPoint("write")
		},
	}
	k.buffered = bufio.NewWriterSize(k, mergeBufferBytes)
	defer k.close()
	there := &crcReader{f: out}
	agree := true
	err = m.plan.eachSpan(ctx, func(meps []plannedMEP) error {
		for agree && len(meps) > 0 {
			if agree, err = m.isCopied(ctx, there, &meps[0]); err != nil {
				return err
			}
			if agree {
				k.written = meps[0].mergedOffset + meps[0].Length
				k.syncedTo, meps = k.written, meps[1:]
				continue
			}
			if _, err := out.Seek(k.written, io.SeekStart); err != nil {
				return err
			}
			if err := out.Truncate(k.written); err != nil {
				return err
			}
		}
		return k.copy(ctx, meps)
	})
	if err == nil {
		err = k.buffered.Flush()
	}
	if err == nil {
		err = out.Truncate(m.plan.mergedBytes) // an earlier merge may have had more
	}
	return err
}

// isCopied tells whether a MEP is already in the temporary file.
func (m *merge) isCopied(ctx context.Context, there *crcReader, p *plannedMEP) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	data, err := there.bytes(p.mergedOffset, p.Length)
	m.progress("check what is there", p.mergedOffset, m.plan.mergedBytes)
	return err == nil && p.matches(data), nil
}

// isDiskFull says that there is no room on a disk, or none within a quota.
func isDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// checkSpace is what the merged file needs beyond the bytes of it that are there, and what is free.
func (m *merge) checkSpace(there int64) (*spaceError, error) {
	n, err := freeBytes(filepath.Dir(m.dst))
	// and the manifest, and what the file system needs to find the blocks
	index := int64(m.c.MEPSet.MEPs())*EntryBytes + 64<<10
	return &spaceError{
		Path: m.dst,
		Dir:  m.dir,
		Need: m.plan.mergedBytes + index - min(there, m.plan.mergedBytes),
		Free: n,
	}, err
}

// diskFilledError is the error of a disk that others have filled meanwhile.
func (m *merge) diskFilledError() error {
	there := int64(0)
	if st, err := os.Lstat(m.path(mergingSuffix)); err == nil {
		there = st.Size()
	}
	space, err := m.checkSpace(there)
	return cmp.Or(err, error(space))
}

// reserveSpace says a *spaceError where the file does not fit, and reserves the room where the file system can.
func (m *merge) reserveSpace(out *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(out.Fd()), &st); err != nil {
		return err
	}
	space, err := m.checkSpace(st.Blocks * 512)
	switch {
	case err != nil:
		return err
	case space.Need > space.Free:
		return space
	case m.o.cannotReserve:
		return nil
	}
	err = unix.Fallocate(int(out.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, max(m.plan.mergedBytes, 1))
	if isDiskFull(err) {
		return space
	}
	return nil // reserved; or it cannot be, and writing will tell
}

// verifyCopy reads the file at path back and holds each MEP against the CRC in its segment's index. It writes the index
// of the merged file. A MEP that does not agree is a *Problem.
func (m *merge) verifyCopy(ctx context.Context, path string) (*Merged, error) {
	f, err := safeopen.OpenNoFollow(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read
	index, err := safeopen.CreateNoFollow(m.path(mergingSuffix + IndexSuffix))
	if err != nil {
		return nil, err
	}
	defer func() { _ = index.Close() }() // an error on the way is said already
	x := bufio.NewWriterSize(index, entriesPerScan*EntryBytes)
	entry := m.header().Append(nil)
	if _, err := x.Write(entry); err != nil {
		return nil, err
	}
	w := &crcReader{f: f}
	crc := uint32(0)
	err = m.plan.eachSpan(ctx, func(meps []plannedMEP) error {
		for i := range meps {
			p := &meps[i]
			if err := ctx.Err(); err != nil {
				return err
			}
			data, err := w.bytes(p.mergedOffset, p.Length)
			if err != nil {
				return err
			}
			if !p.matches(data) {
				return m.attributeMismatch(p, path)
			}
			crc = crc32c.Add(crc, data)
			e := p.Entry
			e.Offset, e.CRC = p.mergedOffset, crc
			entry = e.Append(entry[:0])
			if _, err := x.Write(entry); err != nil {
				return err
			}
			m.progress("compare", p.mergedOffset+p.Length, m.plan.mergedBytes)
		}
		return nil
	})
	if err == nil {
		err = x.Flush()
	}
	if err == nil {
		err = index.Sync()
	}
	if err != nil {
		return nil, err
	}
	return &Merged{
		Path:   m.dst,
		Bytes:  m.plan.mergedBytes,
		CRC:    formatCRC(crc),
		MEPs:   m.c.MEPSet.MEPs(),
		Events: m.c.MEPSet.Events(),
		At:     time.Now().UTC(),
	}, m.faultPoint("compared")
}

// attributeMismatch says whether a MEP differs because its segment is damaged, or because the copy is.
func (m *merge) attributeMismatch(p *plannedMEP, path string) error {
	s := m.plan.segments[p.segmentIndex].contents
	damaged := &Problem{
		Kind:   DamagedData,
		File:   s.Name,
		Events: p.eventRange(),
		Text: fmt.Sprintf("the bytes of MEP %d at offset %d have been changed; all segments are in %s as they were",
			p.MEP, p.Offset, m.dir),
	}
	f, err := safeopen.OpenNoFollow(filepath.Join(m.dir, s.Name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	data, err := (&crcReader{f: f}).bytes(p.Offset, p.Length)
	if err != nil || !p.matches(data) {
		return damaged
	}
	damaged.File = filepath.Base(path)
	damaged.Text = fmt.Sprintf(
		"MEP %d was copied to offset %d, and other bytes came back: the disk or the memory of this host fails; "+
			"all segments are in %s", p.MEP, p.mergedOffset, m.dir)
	return damaged
}

func (m *merge) header() *Header {
	format, _ := ParseFormat(m.c.Manifest.Format)
	key, _ := ParseKey(m.c.Manifest.Key) // Read has seen both
	return &Header{
		Segment: mergedID(format),
		Run:     m.c.Manifest.Run,
		Key:     key,
		Created: time.Now().UnixMicro(),
	}
}
