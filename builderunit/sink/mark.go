package sink

import (
	"encoding/binary"
	"fmt"

	"ringlet/event"
)

// Entries that Buffer writes, and other programs read (docs/format/buffer.md).
const (
	// entryTypeMEP is one whole MEP (docs/format/mep.md) with a mark behind it.
	entryTypeMEP = uint32(event.MEPMagic)
	// entryTypeSuperseded is a mark alone. It names a MEP and an attempt in which this builder unit has handed the MEP
	// out: another builder unit delivers the MEP again, and a reader that has the first copy must drop it.
	entryTypeSuperseded = uint32(0x50555352) // "RSUP" in memory
	// markBytes is the size of a mark.
	markBytes = LendMargin
)

// encodeMark writes into markBytes bytes which MEP an entry is, so that a consumer of several builder units takes each
// MEP once: of several attempts the highest counts. Little-endian: u64 MEP, u64 first event, u32 events, u32 attempt,
// u32 run, u32 0.
func encodeMark(b []byte, m Meta) {
	le := binary.LittleEndian
	le.PutUint64(b, m.MEP)
	le.PutUint64(b[8:], m.FirstEvent)
	le.PutUint32(b[16:], uint32(m.Events))
	le.PutUint32(b[20:], m.Attempt)
	le.PutUint32(b[24:], m.Run)
	le.PutUint32(b[28:], 0)
}

// Entry is what one entry of a buffer says.
type Entry struct {
	MEP        uint64 // number of the MEP
	FirstEvent uint64
	Events     uint32
	Attempt    uint32 // how often the MEP has been given to a builder unit, from 1
	Run        uint32
	Superseded bool   // the MEP in that attempt does not count: another builder unit delivers it
	Packet     []byte // the MEP; nil of one that is superseded
}

// EntryError says that an entry is not what a builder unit writes.
type EntryError struct {
	Type  uint32
	Bytes int
	Why   string // a clause
}

// Error is a sentence.
func (e *EntryError) Error() string {
	return fmt.Sprintf("an entry of type 0x%X with %d bytes is not of a builder unit: %s", e.Type, e.Bytes, e.Why)
}

// ParseEntry reads the data of an entry of a type. It views data and copies nothing. The MEP itself is not looked at.
// The error is an *EntryError.
//
// Source: docs/format/buffer.md, "What a builder unit writes".
func ParseEntry(kind uint32, data []byte) (Entry, error) {
	at := len(data) - markBytes
	switch {
	case kind != entryTypeMEP && kind != entryTypeSuperseded:
		return Entry{}, &EntryError{kind, len(data), "the type is not known"}
	case at < 0:
		return Entry{}, &EntryError{kind, len(data), fmt.Sprintf("the mark alone has %d bytes", markBytes)}
	case kind == entryTypeSuperseded && at > 0:
		return Entry{}, &EntryError{kind, len(data), fmt.Sprintf("it has the mark alone, of %d bytes", markBytes)}
	}
	mark, le := data[at:], binary.LittleEndian
	e := Entry{
		MEP:        le.Uint64(mark),
		FirstEvent: le.Uint64(mark[8:]),
		Events:     le.Uint32(mark[16:]),
		Attempt:    le.Uint32(mark[20:]),
		Run:        le.Uint32(mark[24:]),
		Superseded: kind == entryTypeSuperseded,
	}
	if kind == entryTypeMEP {
		e.Packet = data[:at:at]
	}
	return e, nil
}
