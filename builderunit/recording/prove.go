package recording

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"ringlet/internal/regular"
)

// proveBytes is how much of the data is read at once.
const proveBytes = 1 << 20

// proof is what an index proves of the data beside it.
type proof struct {
	right  int64   // entries, from the first
	about  Segment // the MEPs of these
	events uint32  // the most that one of the MEPs has
	crc    uint32  // of these MEPs
}

// prove holds the entries of an index against the data, and ends at the first that is not right: torn, not behind the
// one before it, beyond the data, or with another checksum. An error is one of reading, and says nothing of the
// segment.
func prove(ctx context.Context, index io.Reader, data io.Reader, size int64) (p proof, err error) {
	entries := bufio.NewReaderSize(index, 1<<16)
	buf := make([]byte, proveBytes)
	crc := uint32(0)
	var b [EntryBytes]byte
	for {
		if _, err := io.ReadFull(entries, b[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return p, nil
		} else if err != nil {
			return p, err
		}
		var e Entry
		if !e.Parse(b[:]) || e.Offset != p.about.Bytes || e.Length == 0 || e.End() > size {
			return p, nil
		}
		for left := e.Length; left > 0; {
			if err := ctx.Err(); err != nil {
				return p, err
			}
			piece := buf[:min(left, proveBytes)]
			if _, err := io.ReadFull(data, piece); err != nil {
				return p, err
			}
			crc = crc32.Update(crc, Castagnoli, piece)
			left -= int64(len(piece))
		}
		if crc != e.CRC {
			return p, nil
		}
		p.right++
		p.events = max(p.events, e.Events)
		p.about.Add(e)
		p.crc = crc
	}
}

// Add counts the MEP of the next entry of the segment.
func (s *Segment) Add(e Entry) {
	last := e.FirstEvent + uint64(max(e.Events, 1)) - 1
	if last < e.FirstEvent {
		last = math.MaxUint64
	}
	if s.MEPs == 0 || e.FirstEvent < s.FirstEvent {
		s.FirstEvent = e.FirstEvent
	}
	s.LastEvent = max(s.LastEvent, last)
	s.MEPs++
	s.Events += uint64(e.Events)
	s.Bytes = e.End()
}

// CRCText is a checksum as the manifest writes it.
func CRCText(crc uint32) string { return fmt.Sprintf("%08x", crc) }

// readHeader reads the header of the index at path.
func readHeader(path string) (h Header, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return h, err
	}
	defer func() { _ = f.Close() }()
	return headerOf(f)
}

func headerOf(f io.ReaderAt) (h Header, err error) {
	var b [HeaderBytes]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return h, err
	}
	return h, h.Parse(b[:n])
}

// judge says what the header of an index is to a segment of the run with that key.
func judge(f io.ReaderAt, id SegmentID, run uint32, key Key) (headerState, Header, error) {
	h, err := headerOf(f)
	var version *versionError
	switch {
	case errors.As(err, &version):
		return headerUnknown, h, nil
	case errors.Is(err, errHeader):
		return headerTorn, h, nil
	case err != nil:
		return 0, h, err
	case h.Run != run || h.Key != key || h.Segment.Builder != id.Builder || h.Segment.Number != id.Number,
		id.Format != 0 && h.Segment.Format != id.Format:
		return headerForeign, h, nil
	}
	return headerOurs, h, nil
}

// A versionError says that a file was written by another version of the program.
type versionError struct{ Version, Known uint32 }

func (e *versionError) Error() string {
	return fmt.Sprintf("it is of version %d, this program knows version %d", e.Version, e.Known)
}

// errHeader is the class of errors of Header.Parse that say it is no header.
var errHeader = errors.New("it is not the header of an index")
