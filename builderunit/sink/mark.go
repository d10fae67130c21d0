package sink

import (
	"encoding/binary"

	"ringlet/event"
)

// Entries that Buffer writes (docs/format/buffer.md draws them).
const (
	// entryTypeMEP is one whole MEP (docs/format/mep.md) with a mark behind it.
	entryTypeMEP = uint32(event.MEPMagic)
	// entryTypeSuperseded is a mark alone: the MEP that it names was handed out by this builder unit in that attempt, and
	// another builder unit delivers it. Who has it must let it go.
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
