package source

import (
	"errors"
	"fmt"
	"io"

	"ringlet/event"
)

// maxContainer is the largest container fragment, in bytes: what a u16 can say, in whole words, since banks are padded.
const maxContainer = event.MaxFragment &^ 3

// recordRef is where a usable record stands.
type recordRef struct {
	offset  int64
	size    uint32 // bytes
	banks   uint32
	bank    uint32 // bytes of its record bank, padded
	skipped uint32 // records left out directly before it
}

// catalog is what one walk over the file tells: it is the same in every RU that reads the same file.
type catalog struct {
	records []recordRef
	keys    keyTable
	bad     *BadRecordError // where the walk ended early; nil in mode Skip
	// bytes left out directly before each record with skipped > 0, in order
	gaps []int64
	// left out behind the last record
	tailRecords uint32
	tailBytes   int64

	payload  int // bytes of fragments of the largest event: its banks and its record bank
	bankSize int // bytes of the largest record bank
}

// scan walks the records of data, checks each whole, and learns its keys. It ends at the end of the data, after limit records
// (if limit > 0), or at the first bad record in mode Stop. file is for the errors.
func scan(data []byte, file string, limit uint64, mode OnBadRecord) *catalog {
	c := &catalog{}
	walk := event.NewMDFCursor(data, true)
	for limit == 0 || uint64(len(c.records)) < limit {
		r, err := walk.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = event.Located(c.add(r, walk.Offset()), walk.Index(), walk.Offset())
		}
		if err == nil {
			continue
		}
		if mode == Stop {
			c.bad = badRecord(file, err)
			break
		}
		left := walk.Skip()
		if r != nil {
			left = int64(len(r)) // sound, only not replayable: Next goes past it by itself
		}
		c.tailRecords++
		c.tailBytes += left
	}
	return c
}

// add takes in a verified record, or says why it cannot be replayed.
func (c *catalog) add(r event.Record, offset int64) error {
	banks, err := c.keys.learn(r)
	if err != nil {
		return err
	}
	ref := recordRef{
		offset: offset, size: uint32(len(r)), banks: uint32(banks),
		bank: uint32(recordBankSize(r.HeaderSize(), banks)), skipped: c.tailRecords,
	}
	if c.tailRecords > 0 {
		c.gaps = append(c.gaps, c.tailBytes)
	}
	c.tailRecords, c.tailBytes = 0, 0
	c.records = append(c.records, ref)
	c.bankSize = max(c.bankSize, int(ref.bank))
	c.payload = max(c.payload, len(r.Payload())+int(ref.bank))
	return nil
}

// recordBankSize is the room a record bank takes in its fragment, padded (event.AppendRecordBank).
func recordBankSize(header, banks int) int {
	return roundUp(event.BankHeaderSize + header + 2*banks)
}

// Key identifies a bank over all events: what a cable of the detector carries.
type Key struct {
	Type   event.BankType
	Source int16
}

// keyTable numbers the keys in the order of their first appearance. Looking one up is two loads.
type keyTable struct {
	ids  [256]*[1 << 16]int32 // id+1 by type and source id, 0 for none
	keys []Key
	max  []uint32 // by id: most bytes of padded banks it has in one event

	// scratch of learn
	sum     []uint32 // by id, zero between calls
	touched []int32
}

// id returns the number of a bank's key, or -1.
func (t *keyTable) id(b event.Bank) int32 {
	row := t.ids[b.Type()]
	if row == nil {
		return -1
	}
	return row[uint16(b.SourceID())] - 1
}

// learn takes in the keys of a record and returns how many banks it has. A record that cannot be replayed leaves no trace.
func (t *keyTable) learn(r event.Record) (banks int, err error) {
	before := len(t.keys)
	t.touched = t.touched[:0]
	c, err := r.Banks()
	if err != nil {
		return 0, err
	}
	for c.Next() {
		banks++
		id := t.id(c.Bank())
		if id < 0 {
			id = t.add(c.Bank())
		}
		if t.sum[id] == 0 {
			t.touched = append(t.touched, id)
		}
		t.sum[id] += uint32(len(c.Raw()))
		if t.sum[id] > maxContainer && err == nil {
			err = &event.FormatError{
				Format: event.FormatMDF, Field: "bank", Record: event.NoRecord, Offset: int64(r.HeaderSize() + c.Offset()), Err: event.ErrRange,
				Reason: fmt.Sprintf("the banks of type %v and source %d have more than the %d bytes that a fragment can hold",
					c.Bank().Type(), c.Bank().SourceID(), maxContainer),
			}
		}
	}
	if err == nil {
		err = c.Err()
	}
	if most := (event.MaxBankData - r.HeaderSize()) / 2; banks > most && err == nil {
		err = &event.FormatError{
			Format: event.FormatMDF, Field: "number of banks", Record: event.NoRecord, Offset: 0, Err: event.ErrRange,
			Reason: fmt.Sprintf("%d banks are more than the %d that a replayed record can have", banks, most),
		}
	}
	for _, id := range t.touched {
		if err == nil {
			t.max[id] = max(t.max[id], t.sum[id])
		}
		t.sum[id] = 0
	}
	if err != nil {
		t.forget(before)
	}
	return banks, err
}

func (t *keyTable) add(b event.Bank) int32 {
	row := &t.ids[b.Type()]
	if *row == nil {
		*row = new([1 << 16]int32)
	}
	id := int32(len(t.keys))
	(*row)[uint16(b.SourceID())] = id + 1
	t.keys = append(t.keys, Key{b.Type(), b.SourceID()})
	t.max = append(t.max, 0)
	t.sum = append(t.sum, 0)
	return id
}

// forget removes the keys numbered from first on.
func (t *keyTable) forget(first int) {
	for _, k := range t.keys[first:] {
		t.ids[k.Type][uint16(k.Source)] = 0
	}
	t.keys, t.max, t.sum = t.keys[:first], t.max[:first], t.sum[:first]
}
