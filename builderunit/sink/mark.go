package sink

import (
	"encoding/binary"
	"fmt"

	"ringlet/event"
)

// Entries of a Buffer, as other programs read them (docs/format/buffer.md).
const (
	// entryTypeMEP is one whole MEP (docs/format/mep.md), followed by its mark.
	entryTypeMEP = uint32(event.MEPMagic)
	// entryTypeSuperseded is a mark alone: this builder unit handed out the MEP in that attempt, and another builder unit
	// delivers it. A reader that has the MEP must discard it.
	entryTypeSuperseded = uint32(0x50555352) // "RSUP" in memory
	// markBytes is the size of a mark.
	markBytes = LendMargin
)

// encodeMark writes a mark of markBytes bytes, which says which MEP an entry is. By it a reader of several builder
// units takes each MEP once: of several attempts the highest counts. Little-endian: u64 MEP, u64 first event, u32
// events, u32 attempt, u32 run, u32 0.
func encodeMark(b []byte, m Meta) {
	le := binary.LittleEndian
	le.PutUint64(b, m.MEP)
	le.PutUint64(b[8:], m.FirstEvent)
	le.PutUint32(b[16:], uint32(m.Events))
	le.PutUint32(b[20:], m.Attempt)
	le.PutUint32(b[24:], m.Run)
	le.PutUint32(b[28:], 0)
}

// Entry is a parsed entry of a buffer.
type Entry struct {
	MEP        uint64 // number of the MEP
	FirstEvent uint64
	Events     uint32
	Attempt    uint32 // how often a builder unit was given the MEP, from 1
	Run        uint32
	Superseded bool   // the MEP in that attempt does not count: another builder unit delivers it
	Packet     []byte // the MEP; nil if it is superseded
}

// EntryError says that no builder unit writes such an entry.
type EntryError struct {
	Type  uint32
	Bytes int
	Why   string // a clause
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("an entry of type 0x%X with %d bytes is not of a builder unit: %s", e.Type, e.Bytes, e.Why)
}

// ParseEntry parses the data of an entry of a type. The Entry points into data. ParseEntry does not check the MEP. The
// error is an *EntryError.
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
