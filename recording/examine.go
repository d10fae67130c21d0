package recording

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"ringlet/internal/safeopen"
)

// examine finds out the state of a segment's files.
func (r *recovery) examine(id SegmentID, index *os.File) (f segmentFacts, p proof, err error) {
	f = segmentFacts{id: id, tailSize: -1, listed: r.manifest.HasSegment(id)}
	x, err := parseIndexFile(index)
	if err != nil && !errors.Is(err, errHeader) {
		return f, p, err
	}
	f.indexSize = x.size
	f.header = classifyHeader(&x.header, err, id, r.run.Run, r.run.Key)
	if at := time.UnixMicro(x.header.Created); r.manifestRebuilt && f.header == headerOurs &&
		at.Before(r.run.Created) {
		r.run.Created = at
	}
	if st, err := safeopen.StatNoFollow(r.path(tailName(id))); err == nil {
		f.tailSize = st.Size()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return f, p, err
	}
	f.hasOpenData, f.hasClosedData = pathExists(r.path(id.Name()+OpenSuffix)), pathExists(r.path(id.Name()))
	if f.hasOpenData && f.hasClosedData && sameFiles(r.path(id.Name()+OpenSuffix), r.path(id.Name())) {
		f.hasOpenData, f.bothNames = false, true
	}
	if f.hasOpenData == f.hasClosedData {
		return f, p, nil
	}
	data, err := safeopen.OpenNoFollow(r.dataPath(f))
	if err != nil {
		return f, p, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	if f.hasOpenData { // a closed segment may have both names, and so two links
		err = safeopen.CheckSingleLink(data)
	}
	if err = errors.Join(err, safeopen.CheckSingleLink(index)); err != nil {
		return f, p, err
	}
	st, err := data.Stat()
	if err != nil {
		return f, p, err
	}
	f.dataSize = st.Size()
	p, err = proveIndex(r.ctx, x, data, f.dataSize)
	f.provenEntries, f.provenEnd = int64(p.totals.MEPs), p.totals.Bytes
	if err == nil && f.tailSize >= 0 && f.tailSize == f.dataSize-f.provenEnd {
		f.tailCopied, err = r.isTailCopied(data, f)
	}
	return f, p, err
}

// isTailCopied says whether the file .tail is a copy of the bytes after the last whole MEP of the data: a Recover that
// was killed made it.
func (r *recovery) isTailCopied(data io.ReaderAt, f segmentFacts) (same bool, err error) {
	tail, err := safeopen.OpenNoFollow(r.path(tailName(f.id)))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, tail.Close()) }()
	behind := bufio.NewReader(io.NewSectionReader(data, f.provenEnd, f.tailSize))
	copied := bufio.NewReader(tail)
	for {
		a, errA := behind.ReadByte()
		b, errB := copied.ReadByte()
		switch {
		case errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF):
			return true, nil
		case errors.Is(errA, io.EOF) || errors.Is(errB, io.EOF):
			return false, nil
		case errA != nil || errB != nil:
			return false, errors.Join(errA, errB)
		case a != b:
			return false, nil
		}
	}
}

func (r *recovery) dataPath(f segmentFacts) string {
	if f.hasOpenData {
		return r.path(f.id.Name() + OpenSuffix)
	}
	return r.path(f.id.Name())
}

// perform does one step of the recovery.
func (r *recovery) perform(s recoveryStep, f segmentFacts, p proof, index *os.File) error {
	data := r.dataPath(f)
	switch s {
	case stepWriteHeader:
		h := Header{Segment: f.id, Run: r.run.Run, Key: r.run.Key} // the time of creation is lost
		_, err := index.WriteAt(h.Append(nil), 0)
		return err
	case stepCopyTail:
		return r.copyTail(data, r.path(tailName(f.id)), f.provenEnd)
	case stepCutData:
		return safeopen.TruncateNoFollow(data, f.provenEnd)
	case stepCutIndex:
		return index.Truncate(f.indexEnd())
	case stepSyncBoth:
		return errors.Join(syncFile(data), index.Sync())
	case stepDropName:
		return os.Remove(r.path(f.id.Name() + OpenSuffix))
	case stepGiveName:
		return r.rename(data, r.path(f.id.Name()))
	case stepMoveData:
		return r.rename(data, r.path(tailName(f.id)))
	case stepRemoveData:
		return os.Remove(data)
	case stepRemoveIndex:
		return os.Remove(index.Name())
	}
	return nil // stepList: updateManifest does it for all segments together
}

func (r *recovery) rename(from, to string) error {
	if err := RenameNoReplace(from, to); err != nil {
		return err
	}
	return SyncDir(r.dir)
}

// copyTail copies the bytes of the data from an offset on to a file of its own, which appears complete or not at all.
func (r *recovery) copyTail(data, tail string, offset int64) (err error) {
	from, err := safeopen.OpenNoFollow(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := safeopen.CheckSingleLink(from); err != nil {
		return err
	}
	if _, err = from.Seek(offset, io.SeekStart); err == nil {
		err = safeopen.WriteNoFollow(tail+tempSuffix, from, 0o666)
	}
	if err != nil {
		return err
	}
	if err := r.beforeStep("rename the copy of the tail"); err != nil {
		return err
	}
	return r.rename(tail+tempSuffix, tail)
}

func sameFiles(a, b string) bool {
	x, errX := os.Lstat(a)
	y, errY := os.Lstat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
