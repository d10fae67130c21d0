package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"

	"ringlet/internal/safeopen"
)

// entriesPerScan is how many entries of an index are read at once: 192 KiB.
const entriesPerScan = 4096

// indexFile is an index that is open for reading.
type indexFile struct {
	f         *os.File
	header    Header
	size      int64
	entries   int64 // whole ones in the file
	tornBytes int64 // bytes behind the last whole one
	buf       []byte
}

// openIndex opens an index and reads its header. The error is of the system, or errHeader.
func openIndex(path string) (*indexFile, error) {
	f, err := safeopen.OpenNoFollow(path)
	if err != nil {
		return nil, err
	}
	x, err := parseIndexFile(f)
	if err != nil {
		_ = f.Close() // it was read
		return nil, err
	}
	return x, nil
}

// parseIndexFile reads the header of an index that is open. Where the error is errHeader, its entries can be read all
// the same.
func parseIndexFile(f *os.File) (*indexFile, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var head [HeaderBytes]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	body := max(st.Size()-HeaderBytes, 0)
	x := &indexFile{
		f:         f,
		size:      st.Size(),
		entries:   body / EntryBytes,
		tornBytes: body % EntryBytes,
	}
	return x, x.header.Parse(head[:n])
}

// readHeader reads the header of the index at path.
func readHeader(path string) (Header, error) {
	x, err := openIndex(path)
	if err != nil {
		return Header{}, err
	}
	return x.header, x.close()
}

func (x *indexFile) close() error { return x.f.Close() }

// errStop is what visit ends a scan with.
var errStop = errors.New("the rest is not of use")

// scan shows the entries from one to before the other to visit; ok is false where the bytes are no entry. It ends
// early, without an error, where visit says errStop or the file has become shorter.
func (x *indexFile) scan(ctx context.Context, from, to int64, visit func(i int64, e *Entry, ok bool) error) error {
	if x.buf == nil {
		x.buf = make([]byte, entriesPerScan*EntryBytes)
	}
	var e Entry
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(to-from, entriesPerScan)
		got, err := x.f.ReadAt(x.buf[:n*EntryBytes], HeaderBytes+from*EntryBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for b := x.buf[:got-got%EntryBytes]; len(b) > 0; b, from = b[EntryBytes:], from+1 {
			ok := e.Parse(b)
			if err := visit(from, &e, ok); errors.Is(err, errStop) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if int64(got) < n*EntryBytes {
			return nil
		}
	}
	return nil
}

// checkAgainst says what of an entry cannot be in a run; nothing if all can. So an index has no more entries that are
// of use than its segment has bytes.
func (e *Entry) checkAgainst(m *Manifest) error {
	packing := m.Packing
	if e.Length == 0 {
		return fmt.Errorf("MEP %d has no bytes", e.MEP)
	}
	if m.Live {
		return e.checkLive(packing)
	}
	high, first := bits.Mul64(e.MEP, uint64(packing))
	_, carry := bits.Add64(first, uint64(packing)<<blockShift, 0) // a Set goes on to the end of a block
	switch {
	case high != 0 || carry != 0:
		return fmt.Errorf("MEP %d of %d events each is beyond what can be counted", e.MEP, packing)
	case e.FirstEvent != first:
		return fmt.Errorf("MEP %d begins with event %d; with %d events in a MEP it would begin with event %d",
			e.MEP, e.FirstEvent, packing, first)
	case uint64(e.Events) > uint64(packing):
		return fmt.Errorf("MEP %d has %d events, a MEP of this run has %d at most", e.MEP, e.Events, packing)
	}
	return nil
}

// checkLive is checkAgainst for live data, whose MEPs have any events, packing at most.
func (e *Entry) checkLive(packing int) error {
	switch {
	case e.MEP > math.MaxUint64-blockMEPs || e.FirstEvent > math.MaxUint64-uint64(e.Events):
		return fmt.Errorf("MEP %d with %d events from %d is beyond what can be counted", e.MEP, e.Events, e.FirstEvent)
	case e.Events < 1 || uint64(e.Events) > uint64(packing):
		return fmt.Errorf("MEP %d has %d events, a MEP of this run has 1 to %d", e.MEP, e.Events, packing)
	}
	return nil
}

// eventRange is the events of an entry; nil if it has none.
func (e *Entry) eventRange() *Range {
	if e.Events == 0 {
		return nil
	}
	return &Range{From: e.FirstEvent, To: e.FirstEvent + uint64(e.Events) - 1}
}
