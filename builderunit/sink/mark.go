package sink

import (
	"encoding/binary"

	"ringlet/event"
)

// Entries that Buffer writes (docs/format/buffer.md draws them).
const (
	// entryMEP is one whole MEP (docs/format/mep.md) with a mark behind it.
	entryMEP = uint32(event.MEPMagic)
	// entrySuperseded is a mark alone: the MEP that it names was handed out by this builder unit in that attempt, and
	// another builder unit delivers it. Who has it must let it go.
	entrySuperseded = uint32(0x50555352) // "RSUP" in memory
	// markBytes is the size of a mark.
	markBytes = 32
)

// mark says which MEP an entry is, so that a consumer of several builder units takes each MEP once: of several attempts
// the highest counts. Little-endian: u64 MEP, u64 first event, u32 events, u32 attempt, u32 run, u32 0.
type mark struct {
	MEP, FirstEvent      uint64
	Events, Attempt, Run uint32
}

// put writes the mark into markBytes bytes.
func (m *mark) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b, m.MEP)
	le.PutUint64(b[8:], m.FirstEvent)
	le.PutUint32(b[16:], m.Events)
	le.PutUint32(b[20:], m.Attempt)
	le.PutUint32(b[24:], m.Run)
	le.PutUint32(b[28:], 0)
}

// readMark reads the mark at the end of an entry's data, and gives the MEP before it, which is empty for entrySuperseded.
func readMark(data []byte) (m mark, mep []byte, ok bool) {
	at := len(data) - markBytes
	if at < 0 {
		return mark{}, nil, false
	}
	le, b := binary.LittleEndian, data[at:]
	m = mark{
		MEP:        le.Uint64(b),
		FirstEvent: le.Uint64(b[8:]),
		Events:     le.Uint32(b[16:]),
		Attempt:    le.Uint32(b[20:]),
		Run:        le.Uint32(b[24:]),
	}
	return m, data[:at], true
}

func markOf(m Meta) mark {
	return mark{
		MEP:        m.MEP,
		FirstEvent: m.FirstEvent,
		Events:     uint32(m.Events),
		Attempt:    m.Attempt,
		Run:        m.Run,
	}
}
