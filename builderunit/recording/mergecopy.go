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

	"golang.org/x/sys/unix"

	"ringlet/internal/crc32c"
	"ringlet/internal/safeopen"
)

// The way of data into a merged file, one goroutine:
//
//  1. what an earlier, broken merge left is read and held against the plan: what agrees is kept
//  2. MEPs that stand one behind another in a segment are one stretch. A long one is copied by the kernel, which shares
//     the blocks where the file system can; short ones are gathered and written together
//  3. the disk is made to write behind, so that it is not idle until the end
//  4. when all is on the disk the file is read back once, and each MEP held against the CRC of its index entry
const (
	// kernelCopyBytes is what the kernel copies: one system call costs some microseconds, for which memory copies 10 to 20
	// KiB.
	kernelCopyBytes  = 128 << 10
	mergeBufferBytes = 1 << 20
	writeBackBytes   = 64 << 20
	maxOpenFiles     = 64 // files of segments that are open at a time
)

// copier writes a merged file.
type copier struct {
	dir       string
	sources   []*plannedSegment
	out       *os.File
	written   int64         // bytes written: the offset of out
	syncedTo  int64         // of them, those that the disk was told to write
	buffered  *bufio.Writer // onto Write
	open      map[int]*crcReader
	recent    []int // keys of open, the oldest first
	afterCopy func(done int64) error
}

// copy copies MEPs, which follow what was written.
func (k *copier) copy(ctx context.Context, meps []plannedMEP) error {
	for len(meps) > 0 {
		n, length := 1, meps[0].Length
		for n < len(meps) && meps[n].segmentIndex == meps[0].segmentIndex && meps[n].Offset == meps[0].Offset+length {
			length += meps[n].Length
			n++
		}
		if err := k.copyStretch(ctx, meps[0].segmentIndex, meps[0].Offset, length); err != nil {
			return err
		}
		meps = meps[n:]
	}
	return nil
}

// copyStretch copies bytes of a segment.
func (k *copier) copyStretch(ctx context.Context, source int, offset, length int64) error {
	w, err := k.openSegment(source)
	if err != nil {
		return err
	}
	if length >= kernelCopyBytes {
		return k.copyLong(ctx, w.f.(*os.File), offset, length)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := w.bytes(offset, length)
	if err != nil {
		return fmt.Errorf("%s: %w", k.sources[source].contents.Name, err)
	}
	_, err = k.buffered.Write(b)
	return err
}

// copyLong has the kernel copy where it can: see os.File.ReadFrom.
func (k *copier) copyLong(ctx context.Context, from *os.File, offset, length int64) error {
	if err := k.buffered.Flush(); err != nil {
		return err
	}
	if _, err := from.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	for length > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(k.out, from, min(length, writeBackBytes))
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s has become shorter: %w", from.Name(), io.ErrUnexpectedEOF)
		}
		if err = cmp.Or(err, k.advance(n)); err != nil {
			return err
		}
		length -= n
	}
	return nil
}

// Write writes what was gathered of short stretches.
func (k *copier) Write(p []byte) (int, error) {
	n, err := k.out.Write(p)
	return n, cmp.Or(err, k.advance(int64(n)))
}

// advance counts bytes, and sends those behind to the disk.
func (k *copier) advance(n int64) error {
	k.written += n
	if k.written-k.syncedTo >= writeBackBytes {
		// It is a wish: what does not come to the disk by it comes there by the fdatasync at the end.
		_ = unix.SyncFileRange(int(k.out.Fd()), k.syncedTo, k.written-k.syncedTo, unix.SYNC_FILE_RANGE_WRITE)
		k.syncedTo = k.written
	}
	return k.afterCopy(k.written)
}

// openSegment opens one, and closes the one that was opened longest ago where too many are open.
func (k *copier) openSegment(source int) (*crcReader, error) {
	if w := k.open[source]; w != nil {
		return w, nil
	}
	if len(k.recent) == maxOpenFiles {
		_ = k.open[k.recent[0]].f.(*os.File).Close() // it was read
		delete(k.open, k.recent[0])
		k.recent = k.recent[1:]
	}
	f, err := safeopen.OpenNoFollow(filepath.Join(k.dir, k.sources[source].contents.Name))
	if err != nil {
		return nil, err
	}
	w := &crcReader{f: f}
	k.open[source], k.recent = w, append(k.recent, source)
	return w, nil
}

func (k *copier) close() {
	for _, w := range k.open {
		_ = w.f.(*os.File).Close() // it was read
	}
}

// matches tells whether the bytes of a MEP in the merged file are those that its segment had.
func (p *plannedMEP) matches(data []byte) bool { return crc32c.Add(p.crcBefore, data) == p.CRC }
