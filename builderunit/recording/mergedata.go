package recording

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/regular"
)

// data makes the file under its temporary name, whole, on the disk, and compared. If the file is there under its own
// name from an earlier merge, and agrees, that is it.
func (m *merge) data(ctx context.Context, began bool) (*Merged, error) {
	ours := began || m.c.Manifest.Merged != nil && m.c.Manifest.Merged.Path == m.dst
	if st, err := os.Stat(m.dst); err == nil && ours && st.Size() == m.plan.bytes {
		merged, err := m.compare(ctx, m.dst)
		var problem *Problem
		if !errors.As(err, &problem) {
			m.named = err == nil
			return merged, err
		}
	}
	if m.there("") && !m.o.Overwrite {
		return nil, &takenError{Path: m.dst, What: " and is not this run in order", Hint: "give another path, or --overwrite"}
	}
	whole, err := m.plan.whole(ctx)
	if err != nil {
		return nil, err
	}
	if whole == nil || !m.share(whole) {
		if err := m.copy(ctx); err != nil {
			return nil, err
		}
	}
	if err := m.step("copied"); err != nil {
		return nil, err
	}
	if err := syncData(m.path(mergingSuffix)); err != nil {
		return nil, err
	}
	if err := m.step("synchronised"); err != nil {
		return nil, err
	}
	return m.compare(ctx, m.path(mergingSuffix))
}

// share makes a segment that is in order as it is the merged file without copying: by a second name where the first one
// will go, by shared blocks where the file system can.
func (m *merge) share(s *SegmentContents) bool {
	temp, from := m.path(mergingSuffix), filepath.Join(m.dir, s.Name)
	if m.o.Remove {
		second := m.path(mergingSuffix + ".tmp")
		_ = os.Remove(second) // of an earlier merge; else Link says that it is there
		return os.Link(from, second) == nil && os.Rename(second, temp) == nil
	}
	if secondName(temp) && os.Remove(temp) != nil {
		return false
	}
	in, err := regular.Open(from)
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }() // it was read
	out, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return false
	}
	err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	return errors.Join(err, out.Close()) == nil
}

// secondName tells that a file has another name, too: that of a segment.
func secondName(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Nlink > 1
}

func syncData(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fdatasync(int(f.Fd())), f.Close())
}

// copy writes the temporary file, or what lacks of it.
func (m *merge) copy(ctx context.Context) (err error) {
	temp := m.path(mergingSuffix)
	if secondName(temp) { // a segment is not written to
		if err := os.Remove(temp); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err = m.room(out); err == nil {
		err = m.step("room")
	}
	if err != nil {
		return err
	}
	k := &copier{
		dir:     m.dir,
		sources: m.plan.sources,
		out:     out,
		open:    map[int]*window{},
		step: func(done int64) error {
			m.progress("copy", done, m.plan.bytes)
			return m.step("write")
		},
	}
	defer k.close()
	there := &window{f: out}
	agree := true
	err = m.plan.each(ctx, func(parts []part) error {
		for agree && len(parts) > 0 {
			if agree, err = m.kept(ctx, there, &parts[0]); err != nil {
				return err
			}
			if agree {
				k.at = parts[0].at + parts[0].Length
				k.behind, parts = k.at, parts[1:]
			} else if err := out.Truncate(k.at); err != nil {
				return err
			}
		}
		return k.copy(ctx, parts)
	})
	if err == nil {
		err = k.flush()
	}
	if err == nil {
		err = out.Truncate(m.plan.bytes) // an earlier merge may have had more
	}
	return err
}

// kept tells whether a MEP is already in the temporary file.
func (m *merge) kept(ctx context.Context, there *window, p *part) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	data, err := there.bytes(p.at, p.Length)
	m.progress("check what is there", p.at, m.plan.bytes)
	return err == nil && p.agrees(data), nil
}

// free is the bytes that are free where the merged file comes to be.
func (m *merge) free() (int64, error) {
	var st unix.Statfs_t
	dir := filepath.Dir(m.dst)
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(min(st.Bavail, 1<<62/uint64(st.Bsize))) * st.Bsize, nil
}

// full says that there is no room on a disk, or none within a quota.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// ranOut is the error of a disk that others have filled meanwhile.
func (m *merge) ranOut() error {
	free, err := m.free()
	if err != nil {
		return err
	}
	need := m.plan.bytes + int64(m.c.Set.MEPs())*EntryBytes
	if st, err := os.Stat(m.path(mergingSuffix)); err == nil {
		need -= min(st.Size(), m.plan.bytes)
	}
	return &roomError{
		Path: m.dst,
		Dir:  m.dir,
		Need: need,
		Free: free,
	}
}

// room says a *roomError where the file does not fit, and reserves the room where the file system can.
func (m *merge) room(out *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(out.Fd()), &st); err != nil {
		return err
	}
	free, err := m.free()
	if err != nil {
		return err
	}
	// and the manifest, and what the file system needs to find the blocks
	index := int64(m.c.Set.MEPs())*EntryBytes + 64<<10
	need := m.plan.bytes + index - min(st.Blocks*512, m.plan.bytes)
	if m.o.noReserve && need <= free {
		return nil
	}
	if need <= free {
		err = unix.Fallocate(int(out.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, max(m.plan.bytes, 1))
		if !full(err) {
			return nil // reserved; or it cannot be, and writing will tell
		}
	}
	return &roomError{
		Path: m.dst,
		Dir:  m.dir,
		Need: need,
		Free: free,
	}
}

// compare reads the file at path back and holds each MEP against the CRC in its segment's index. It writes the index of
// the merged file. A MEP that does not agree is a *Problem.
func (m *merge) compare(ctx context.Context, path string) (*Merged, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read
	index, err := os.Create(m.path(mergingSuffix + IndexSuffix))
	if err != nil {
		return nil, err
	}
	defer func() { _ = index.Close() }() // an error on the way is said already
	x := &indexWriter{f: index, buf: m.header().Append(nil)}
	w := &window{f: f}
	crc := uint32(0)
	err = m.plan.each(ctx, func(parts []part) error {
		for i := range parts {
			p := &parts[i]
			if err := ctx.Err(); err != nil {
				return err
			}
			data, err := w.bytes(p.at, p.Length)
			if err != nil {
				return err
			}
			if !p.agrees(data) {
				return m.blame(p, path)
			}
			crc = crc32.Update(crc, Castagnoli, data)
			e := p.Entry
			e.Offset, e.CRC = p.at, crc
			if err := x.add(&e); err != nil {
				return err
			}
			m.progress("compare", p.at+p.Length, m.plan.bytes)
		}
		return nil
	})
	if err == nil {
		err = x.flush()
	}
	if err == nil {
		err = index.Sync()
	}
	if err != nil {
		return nil, err
	}
	return &Merged{
		Path:   m.dst,
		Bytes:  m.plan.bytes,
		CRC:    crcText(crc),
		MEPs:   m.c.Set.MEPs(),
		Events: m.c.Set.Events(),
		At:     time.Now().UTC(),
	}, m.step("compared")
}

// blame says whether a MEP differs because its segment is damaged, or because the copy is.
func (m *merge) blame(p *part, path string) error {
	s := m.plan.sources[p.source].s
	damaged := &Problem{
		Kind:   DamagedData,
		File:   s.Name,
		Events: p.events(),
		Text: fmt.Sprintf("the bytes of MEP %d at offset %d have been changed; all segments are in %s as they were",
			p.MEP, p.Offset, m.dir),
	}
	f, err := regular.Open(filepath.Join(m.dir, s.Name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	data, err := (&window{f: f}).bytes(p.Offset, p.Length)
	if err != nil || !p.agrees(data) {
		return damaged
	}
	damaged.File = filepath.Base(path)
	damaged.Text = fmt.Sprintf(
		"MEP %d was copied to offset %d, and other bytes came back: the disk or the memory of this host fails; "+
			"all segments are in %s", p.MEP, p.at, m.dir)
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

// indexWriter writes an index.
type indexWriter struct {
	f   *os.File
	buf []byte
}

func (x *indexWriter) add(e *Entry) error {
	x.buf = e.Append(x.buf)
	if len(x.buf) < scanEntries*EntryBytes {
		return nil
	}
	return x.flush()
}

func (x *indexWriter) flush() error {
	_, err := x.f.Write(x.buf)
	x.buf = x.buf[:0]
	return err
}
