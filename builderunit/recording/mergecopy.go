package recording

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ringlet/internal/regular"
)

// The way of data into a merged file, one goroutine:
//
//  1. what an earlier, broken merge left is read and held against the plan: what agrees is kept
//  2. MEPs that stand one behind another in a segment are one stretch. A long one is copied by the kernel, which shares the
//     blocks where the file system can; short ones are gathered and written together
//  3. the disk is made to write behind, so that it is not idle until the end
//  4. when all is on the disk the file is read back once, and each MEP held against the CRC of its index entry
const (
	// longStretch is what the kernel copies: one system call costs some microseconds, for which memory copies 10 to 20
	// KiB.
	longStretch = 128 << 10
	gatherBytes = 1 << 20
	behindBytes = 64 << 20
	maxOpen     = 64 // files of segments that are open at a time
)

// copier writes a merged file.
type copier struct {
	dir     string
	sources []*source
	out     *os.File
	at      int64 // bytes written
	behind  int64 // of them, those that the disk was told to write
	buf     []byte
	open    map[int]*window
	recent  []int // keys of open, the oldest first
	step    func(done int64) error
}

// each copies parts, which follow what was written.
func (k *copier) copy(ctx context.Context, parts []part) error {
	for len(parts) > 0 {
		n, length := 1, parts[0].Length
		for n < len(parts) && parts[n].source == parts[0].source && parts[n].Offset == parts[0].Offset+length {
			length += parts[n].Length
			n++
		}
		if err := k.stretch(ctx, parts[0].source, parts[0].Offset, length); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// stretch copies bytes of a segment.
func (k *copier) stretch(ctx context.Context, source int, offset, length int64) error {
	w, err := k.window(source)
	if err != nil {
		return err
	}
	if length >= longStretch {
		if err := k.flush(); err != nil {
			return err
		}
		done, err := k.byKernel(ctx, w.f.(*os.File), offset, length)
		if err != nil {
			return err
		}
		offset, length = offset+done, length-done
	}
	for length > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := w.bytes(offset, min(length, windowBytes))
		if err != nil {
			return fmt.Errorf("%s: %w", k.sources[source].s.Name, err)
		}
		k.buf = append(k.buf, b...)
		offset, length = offset+int64(len(b)), length-int64(len(b))
		if len(k.buf) >= gatherBytes {
			if err := k.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// byKernel copies as much as the system does of itself: less than length where it cannot at all.
func (k *copier) byKernel(ctx context.Context, from *os.File, offset, length int64) (done int64, err error) {
	for done < length {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		in, out := offset+done, k.at
		n, err := unix.CopyFileRange(int(from.Fd()), &in, int(k.out.Fd()), &out, int(min(length-done, behindBytes)), 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.EIO), n == 0:
			return done, nil // reading and writing says what is wrong, or does it
		case err != nil:
			return done, &os.PathError{Op: "write", Path: k.out.Name(), Err: err}
		}
		done += int64(n)
		if err := k.wrote(int64(n)); err != nil {
			return done, err
		}
	}
	return done, nil
}

// flush writes what was gathered.
func (k *copier) flush() error {
	if len(k.buf) == 0 {
		return nil
	}
	n, err := k.out.WriteAt(k.buf, k.at)
	k.buf = k.buf[:0]
	if stepErr := k.wrote(int64(n)); err == nil {
		err = stepErr
	}
	return err
}

// wrote counts bytes, and sends those behind to the disk.
func (k *copier) wrote(n int64) error {
	k.at += n
	if k.at-k.behind >= behindBytes {
		// It is a wish: what does not come to the disk by it comes there by the fdatasync at the end.
		_ = unix.SyncFileRange(int(k.out.Fd()), k.behind, k.at-k.behind, unix.SYNC_FILE_RANGE_WRITE)
		k.behind = k.at
	}
	return k.step(k.at)
}

// window opens a segment, and closes the one that was opened longest ago where too many are open.
func (k *copier) window(source int) (*window, error) {
	if w := k.open[source]; w != nil {
		return w, nil
	}
	if len(k.recent) == maxOpen {
		_ = k.open[k.recent[0]].f.(*os.File).Close() // it was read
		delete(k.open, k.recent[0])
		k.recent = k.recent[1:]
	}
	f, err := regular.Open(filepath.Join(k.dir, k.sources[source].s.Name))
	if err != nil {
		return nil, err
	}
	w := &window{f: f}
	k.open[source], k.recent = w, append(k.recent, source)
	return w, nil
}

func (k *copier) close() {
	for _, w := range k.open {
		_ = w.f.(*os.File).Close() // it was read
	}
}

// agrees tells whether the bytes of a MEP in the merged file are those that its segment had.
func (p *part) agrees(data []byte) bool { return crc32.Update(p.before, Castagnoli, data) == p.CRC }
