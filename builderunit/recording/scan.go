package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"

	"ringlet/internal/regular"
)

// scanEntries is how many entries of an index are read at once: 192 KiB.
const scanEntries = 4096

// indexFile is an index that is open for reading.
type indexFile struct {
	f       *os.File
	header  Header
	entries int64 // whole ones in the file
	odd     int64 // bytes behind the last whole one
	buf     []byte
}

// A headerError says that a file is not an index, or none that can be read.
type headerError struct{ err error }

func (e *headerError) Error() string { return e.err.Error() }
func (e *headerError) Unwrap() error { return e.err }

// openIndex opens an index and reads its header. The error is of the system, or a *headerError.
func openIndex(path string) (*indexFile, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	x := &indexFile{f: f, buf: make([]byte, scanEntries*EntryBytes)}
	st, err := f.Stat()
	if err == nil {
		var head [HeaderBytes]byte
		var n int
		if n, err = f.ReadAt(head[:], 0); errors.Is(err, io.EOF) {
			err = nil
		}
		if err == nil {
			if bad := x.header.Parse(head[:n]); bad != nil {
				err = &headerError{bad}
			}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	body := max(st.Size()-HeaderBytes, 0)
	x.entries, x.odd = body/EntryBytes, body%EntryBytes
	return x, nil
}

func (x *indexFile) close() error { return x.f.Close() }

// scan shows the entries from one to before the other to visit; ok is false where the bytes are no entry. It ends
// early, without an error, where the file has become shorter.
func (x *indexFile) scan(ctx context.Context, from, to int64, visit func(i int64, e *Entry, ok bool) error) error {
	var e Entry
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(to-from, scanEntries)
		got, err := x.f.ReadAt(x.buf[:n*EntryBytes], HeaderBytes+from*EntryBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for b := x.buf[:got-got%EntryBytes]; len(b) > 0; b, from = b[EntryBytes:], from+1 {
			ok := e.Parse(b)
			if err := visit(from, &e, ok); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
	return nil
}

// fits says what of an entry cannot be in a run whose MEPs have packing events; nothing if all can.
func (e *Entry) fits(packing int) error {
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

// events is the events of an entry; nil if it has none.
func (e *Entry) events() *Range {
	if e.Events == 0 {
		return nil
	}
	return &Range{From: e.FirstEvent, To: e.FirstEvent + uint64(e.Events) - 1}
}
