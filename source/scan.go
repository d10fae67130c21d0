package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ringlet/event"
)

// A container fragment has whole words, since banks are padded. It has at most narrowContainer bytes, which a u16 can
// count, unless the banks of one key have more in some event; and never more than wideContainer.
const (
	narrowContainer = event.MaxNarrowFragment &^ 3
	wideContainer   = event.MaxFragment &^ 3
)

// recordRef says where a usable record stands in the file.
type recordRef struct {
	offset        int64
	fileBytes     uint32 // bytes in the file
	payloadBytes  uint32 // bytes of its banks, unpacked
	bankCount     uint16
	headerBytes   uint16 // bytes of its header
	skippedBefore uint32 // records left out directly before it
}

// fragmentBytes is the bytes of all fragments of the record: its banks and its record bank.
func (r recordRef) fragmentBytes() int { return int(r.payloadBytes) + r.recordBankBytes() }

// recordBankBytes is the bytes of the record bank, padded.
func (r recordRef) recordBankBytes() int { return recordBankSize(int(r.headerBytes), int(r.bankCount)) }

// record returns the record unpacked: in the mapped file, or in *buf if it is compressed.
func (r recordRef) record(data []byte, buf *[]byte) (event.Record, error) {
	return event.Record(data[r.offset : r.offset+int64(r.fileBytes)]).Unpacked(buf)
}

// catalog is what one walk over the file learns: every RU that reads the same file has the same.
type catalog struct {
	records []recordRef
	keys    keyTable
	omitted

	maxFragmentBytes   int // bytes of fragments of the largest event: its banks and its record bank
	maxRecordBankBytes int // bytes of the largest record bank
	maxKeyBytes        int // the most bytes of padded banks that a key has in one event
}

// maxContainer is the largest container fragment that a replay of the file makes, in bytes.
func (c *catalog) maxContainer() int {
	if c.maxKeyBytes <= narrowContainer {
		return narrowContainer
	}
	return min(c.maxKeyBytes+c.maxRecordBankBytes, wideContainer)
}

// headerBytes is the size in bytes of the header of an MFP of n events, at most.
func (c *catalog) headerBytes(n int) int {
	if c.maxContainer() > narrowContainer {
		return event.WideMFPHeaderSize(n)
	}
	return event.MFPHeaderSize(n)
}

// maxRecords is the most usable records of a file: each takes 24 bytes of memory in every readout unit for as long as
// it replays. maxKeys is the most keys, a hundred times as many as a detector has: each takes some 20 bytes.
const (
	maxRecords = 1 << 26
	maxKeys    = 1 << 20
)

// contextInterval is how many bytes of a file are scanned between two looks at a context: some milliseconds.
const contextInterval = 4 << 20

// contextPoller checks now and then whether a context has ended.
type contextPoller struct {
	ctx         context.Context
	bytesToPoll int
}

// advance notes that n more bytes were scanned, and returns the cause if the context has ended.
func (a *contextPoller) advance(n int) error {
	if a.bytesToPoll -= n + 64; a.bytesToPoll > 0 {
		return nil
	}
	a.bytesToPoll = contextInterval
	return context.Cause(a.ctx)
}

// scanMDF walks the records of data, checks each of them, and learns its keys. It ends at the end of the data, after
// limit records (if limit > 0), at the first bad record with StopAtBadRecord, or with ctx, whose error it returns.
// file is the name in errors.
func scanMDF(ctx context.Context, data []byte, file string, limit uint64, mode OnBadRecord) (*catalog, error) {
	c := &catalog{}
	walk := event.NewMDFCursor(data, true)
	look := contextPoller{ctx: ctx}
	for limit == 0 || uint64(len(c.records)) < limit {
		r, err := walk.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(c.records) == maxRecords {
			return nil, newTooManyError(file)
		}
		if err == nil {
			err = event.LocateError(c.add(walk.Unpacked(), walk.Offset(), len(r)), walk.Index(), walk.Offset())
		}
		if err != nil && mode == StopAtBadRecord {
			c.badRecord = newBadRecordError(file, err)
			break
		}
		if over := look.advance(len(r)); over != nil {
			return nil, over
		}
		if err != nil {
			if err := c.skipRecord(&walk, r, &look); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// skipRecord goes past a record that cannot be used; r is nil, or the record if it is valid MDF that cannot be
// replayed.
func (c *catalog) skipRecord(walk *event.MDFCursor, r event.Record, look *contextPoller) error {
	c.tailRecords++
	if r != nil {
		c.tailBytes += int64(len(r)) // Next goes past it by itself
		return nil
	}
	for {
		n, done := walk.SkipSome(contextInterval)
		c.tailBytes += n
		if done {
			return nil
		}
		if err := look.advance(int(n)); err != nil {
			return err
		}
	}
}

// add appends a verified, unpacked record, which has size bytes in the file, to the catalogue, or says why it cannot
// be replayed.
func (c *catalog) add(r event.Record, offset int64, size int) error {
	banks, err := c.keys.addRecord(r)
	if err != nil {
		return err
	}
	ref := recordRef{
		offset:        offset,
		fileBytes:     uint32(size),
		payloadBytes:  uint32(len(r.Payload())),
		bankCount:     uint16(banks),
		headerBytes:   uint16(r.HeaderSize()),
		skippedBefore: c.closeGap(),
	}
	c.records = append(c.records, ref)
	c.maxRecordBankBytes = max(c.maxRecordBankBytes, ref.recordBankBytes())
	c.maxFragmentBytes = max(c.maxFragmentBytes, ref.fragmentBytes())
	c.maxKeyBytes = max(c.maxKeyBytes, c.keys.largest)
	return nil
}

// recordBankSize is the bytes that a record bank takes in its fragment, padded (event.AppendRecordBank).
func recordBankSize(header, banks int) int {
	return roundUpToWord(event.BankHeaderSize + header + 2*banks)
}

// bankKey identifies a bank over all events, as a detector's cable does.
type bankKey struct {
	Type   event.BankType
	Source int16
}

// maxKeyBytes is the most bytes that the banks of a key may have in one event: a record bank has room beside them.
const maxKeyBytes = wideContainer - (event.MaxNarrowFragment + 1)

// keyTable numbers the keys in the order of their first appearance. A look-up is two loads.
type keyTable struct {
	ids      [256]*[1 << 16]int32 // id+1 by type and source id, 0 for none
	keys     []bankKey
	maxBytes []uint32 // by id: the most bytes of padded banks that the key has in one event

	largest int // the most of them

	// scratch of addRecord
	sum     []uint32 // by id, zero between calls
	touched []int32
}

// id returns the number of a bank's key; -1 if the table does not have the key.
func (t *keyTable) id(b event.Bank) int32 {
	row := t.ids[b.Type()]
	if row == nil {
		return -1
	}
	return row[uint16(b.SourceID())] - 1
}

// addRecord adds the keys of a record to the table and returns how many banks it has. A record that cannot be replayed
// leaves the table as it was.
func (t *keyTable) addRecord(r event.Record) (banks int, err error) {
	before := len(t.keys)
	t.touched = t.touched[:0]
	c, err := r.Banks()
	if err != nil {
		return 0, err
	}
	for c.Next() {
		banks++
		id := t.id(c.Bank())
		if id < 0 && len(t.keys) == maxKeys {
			err = newRangeError("bank", r.HeaderSize()+c.Offset(),
				"its type and source are one more than the %d pairs that a file can have", maxKeys)
			break
		}
		if id < 0 {
			id = t.add(c.Bank())
		}
		if t.sum[id] == 0 {
			t.touched = append(t.touched, id)
		}
		t.sum[id] += uint32(len(c.RawBank()))
		if t.sum[id] > maxKeyBytes && err == nil {
			err = newRangeError("bank", r.HeaderSize()+c.Offset(),
				"the banks of type %v and source %d have more than the %d bytes that a fragment can hold",
				c.Bank().Type(), c.Bank().SourceID(), maxKeyBytes)
		}
	}
	if err == nil {
		err = c.Err()
	}
	if most := (event.MaxBankData - r.HeaderSize()) / 2; banks > most && err == nil {
		err = newRangeError("number of banks", 0, "%d banks are more than the %d that a replayed record can have", banks,
			most)
	}
	for _, id := range t.touched {
		if err == nil {
			t.maxBytes[id] = max(t.maxBytes[id], t.sum[id])
			t.largest = max(t.largest, int(t.sum[id]))
		}
		t.sum[id] = 0
	}
	if err != nil {
		t.removeFrom(before)
	}
	return banks, err
}

// newRangeError returns the error of a valid MDF record that cannot be replayed: one of its fields, at an offset in
// the record, is too large.
func newRangeError(field string, offset int, reason string, args ...any) error {
	return &event.FormatError{
		Format: event.FormatMDF,
		Field:  field,
		Record: event.NoRecord,
		Offset: int64(offset),
		Err:    event.ErrRange,
		Reason: fmt.Sprintf(reason, args...),
	}
}

func (t *keyTable) add(b event.Bank) int32 {
	row := &t.ids[b.Type()]
	if *row == nil {
		*row = new([1 << 16]int32)
	}
	id := int32(len(t.keys))
	(*row)[uint16(b.SourceID())] = id + 1
	t.keys = append(t.keys, bankKey{b.Type(), b.SourceID()})
	t.maxBytes = append(t.maxBytes, 0)
	t.sum = append(t.sum, 0)
	return id
}

// removeFrom removes the keys numbered from first on.
func (t *keyTable) removeFrom(first int) {
	for _, k := range t.keys[first:] {
		t.ids[k.Type][uint16(k.Source)] = 0
	}
	t.keys, t.maxBytes, t.sum = t.keys[:first], t.maxBytes[:first], t.sum[:first]
}
