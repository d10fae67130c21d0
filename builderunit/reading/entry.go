package reading

import (
	"encoding/binary"
	"fmt"

	"ringlet/event"
)

// What a builder unit writes, docs/format/buffer.md.
const (
	entryTypeMEP        = uint32(event.MEPMagic) // a MEP, with a mark behind it
	entryTypeSuperseded = uint32(0x50555352)     // a mark alone, "RSUP" in memory
	markBytes           = 32
)

// entry is what one entry of a buffer says.
type entry struct {
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

// parse reads the data of an entry of a type. It views data and copies nothing. The MEP itself is not looked at. The
// error is an *EntryError.
//
// Source: docs/format/buffer.md, "What a builder unit writes".
func parse(kind uint32, data []byte) (entry, error) {
	at := len(data) - markBytes
	switch {
	case kind != entryTypeMEP && kind != entryTypeSuperseded:
		return entry{}, &EntryError{kind, len(data), "the type is not known"}
	case at < 0:
		return entry{}, &EntryError{kind, len(data), fmt.Sprintf("the mark alone has %d bytes", markBytes)}
	case kind == entryTypeSuperseded && at > 0:
		return entry{}, &EntryError{kind, len(data), fmt.Sprintf("it has the mark alone, of %d bytes", markBytes)}
	}
	mark, le := data[at:], binary.LittleEndian
	e := entry{
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
