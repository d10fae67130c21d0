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

// writeFile writes the file under its temporary name, and its index.
func (m *merge) writeFile(ctx context.Context, order *mepOrder) (*Merged, error) {
	temporary := m.dst + mergingSuffix
	run := m.c.Manifest
	h := Header{Segment: mergedID(run.Format), Run: run.Run, Key: run.Key, Created: time.Now().UnixMicro()}
	err := m.runSteps(
		mergeStep{"claimed", func() error { return replaceFile(temporary+IndexSuffix, h.Append(nil)) }},
		mergeStep{"old file removed", func() error { return removeFile(temporary) }}, // it may be a second name of a segment
	)
	if err != nil {
		return nil, err
	}
	index, err := safeopen.OpenFileNoFollow(temporary+IndexSuffix, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = index.Close() }() // an error before is returned already
	entries := bufio.NewWriterSize(index, mergeBufferBytes)
	var merged *Merged
	if m.shareSegment(order) {
		merged, err = m.copyMEPs(ctx, order, nil, entries)
	} else {
		merged, err = m.copyToFile(ctx, order, entries)
	}
	if err == nil {
		err = m.runSteps(mergeStep{"index written", entries.Flush}, mergeStep{"index synchronised", index.Sync})
	}
	return merged, err
}

// shareSegment makes a single segment that is in order the merged file without copying: by a second name if the first
// one will be removed, otherwise by shared blocks if the file system can.
func (m *merge) shareSegment(order *mepOrder) bool {
	if len(order.segments) != 1 || order.segments[0].isDisordered || order.segments[0].MEPs != m.c.MEPSet.MEPs() {
		return false
	}
	temporary, from := m.dst+mergingSuffix, order.segments[0].path()
	if m.o.Remove {
		return os.Link(from, temporary) == nil && syncFile(temporary) == nil
	}
	in, err := safeopen.OpenNoFollow(from)
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := safeopen.CreateNoFollow(temporary)
	if err != nil {
		return false
	}
	return errors.Join(unix.IoctlFileClone(int(out.Fd()), int(in.Fd())), out.Sync(), out.Close()) == nil
}

// copyToFile writes all MEPs to the temporary file, flushes it to the disk, and reads it back.
func (m *merge) copyToFile(ctx context.Context, order *mepOrder, entries io.Writer) (*Merged, error) {
	temporary := m.dst + mergingSuffix
	out, err := safeopen.CreateNoFollow(temporary)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // it was synchronised, or there was an error before
	var merged *Merged
	data := &mergeWriter{out: out, short: bufio.NewWriterSize(out, mergeBufferBytes)}
	err = m.runSteps(
		mergeStep{"room", func() error { return m.reserveSpace(out) }},
		mergeStep{"copied", func() error { merged, err = m.copyMEPs(ctx, order, data, entries); return err }},
		mergeStep{"written", data.short.Flush},
		mergeStep{"cut", func() error { return out.Truncate(merged.Bytes) }}, // frees the bytes reserved beyond
		mergeStep{"synchronised", out.Sync},
	)
	if err != nil {
		return nil, err
	}
	if crc, err := m.sumFile(ctx, temporary, merged.Bytes); err != nil || formatCRC(crc) != merged.CRC {
		return nil, cmp.Or(err, error(&Problem{
			Kind: DamagedData,
			File: filepath.Base(temporary),
			Text: "other bytes came back than were written: the disk or the memory of this host fails; all segments are in " +
				m.dir,
		}))
	}
	return merged, nil
}

// mergeWriter writes MEPs one after the other; a nil mergeWriter writes nothing.
type mergeWriter struct {
	out   *os.File
	short *bufio.Writer // writes to out: short MEPs are written together
}

// kernelCopyBytes is from which size on the kernel copies a MEP: a system call costs some microseconds, in which
// memory copies 10 to 20 KiB.
const kernelCopyBytes = 128 << 10

// write writes a MEP, whose bytes are b. If it is long, the kernel copies it if it can, and shares the blocks if the
// file system can.
func (w *mergeWriter) write(m *orderedMEP, b []byte) error {
	if w == nil {
		return nil
	}
	if len(b) >= kernelCopyBytes {
		if err := w.short.Flush(); err != nil {
			return err
		}
		from := m.Offset
		for len(b) > 0 {
			n, err := unix.CopyFileRange(int(m.segment.file.Fd()), &from, int(w.out.Fd()), nil, len(b), 0)
			if err != nil || n == 0 {
				break
			}
			b = b[n:]
		}
	}
	_, err := w.short.Write(b)
	return err
}

// copyMEPs writes the MEPs and their entries in order.
func (m *merge) copyMEPs(ctx context.Context, order *mepOrder, data *mergeWriter, entries io.Writer) (*Merged, error) {
	crc, at, total := uint32(0), int64(0), m.c.bytes()
	var entry []byte
	err := order.each(ctx, 0, func(p *orderedMEP) error {
		b, err := order.read(p)
		if err != nil {
			return fmt.Errorf("%w; all segments are in %s as they were", err, m.dir)
		}
		if err := data.write(p, b); err != nil {
			return err
		}
		e := p.Entry
		crc = crc32c.Add(crc, b)
		e.Offset, e.CRC = at, crc
		at = e.End()
		entry = e.Append(entry[:0])
		if _, err := entries.Write(entry); err != nil {
			return err
		}
		m.progress("copy", at, total)
		return m.faultPoint("write")
	})
	return &Merged{
		Path:   m.dst,
		Bytes:  at,
		CRC:    formatCRC(crc),
		MEPs:   m.c.MEPSet.MEPs(),
		Events: m.c.MEPSet.Events(),
		At:     time.Now().UTC(),
	}, err
}

// isDiskFull says that a disk, or a quota, has no room.
func isDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// checkSpace returns how many more bytes the merged file needs than it has now, and how many are free.
func (m *merge) checkSpace() (*spaceError, error) {
	free, _, err := space(filepath.Dir(m.dst))
	var there unix.Stat_t
	_ = unix.Lstat(m.dst+mergingSuffix, &there) // zero if there is no file
	// plus the manifest, and what the file system needs to find the blocks
	need := m.c.bytes() + int64(m.c.MEPSet.MEPs())*EntryBytes + 64<<10
	return &spaceError{Path: m.dst, Dir: m.dir, Need: need - min(need, there.Blocks*512), Free: free}, err
}

// reserveSpace returns a *spaceError if the file does not fit, and reserves the room if the file system can.
func (m *merge) reserveSpace(out *os.File) error {
	space, err := m.checkSpace()
	switch {
	case err != nil:
		return err
	case space.Need > space.Free:
		return space
	case m.o.cannotReserve:
		return nil
	}
	err = unix.Fallocate(int(out.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, max(m.c.bytes(), 1))
	if isDiskFull(err) {
		return space
	}
	return nil // reserved; or it cannot be, and writing will show whether there is room
}

// sumFile reads a file of total bytes, and returns its CRC-32C.
func (m *merge) sumFile(ctx context.Context, path string, total int64) (crc uint32, err error) {
	f, err := safeopen.OpenNoFollow(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	buf := make([]byte, mergeBufferBytes)
	for at := int64(0); ; {
		n, err := f.Read(buf)
		crc, at = crc32c.Add(crc, buf[:n]), at+int64(n)
		m.progress("compare", at, total)
		if errors.Is(err, io.EOF) {
			return crc, nil
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return 0, err
		}
	}
}
