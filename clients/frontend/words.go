package frontend

import "encoding/binary"

// Words are what else a fragment may have: with ?number=trigger behind the address of the input, events are matched by
// the trigger number.
type Words struct {
	HasTrigger, HasStamp bool
	Trigger              uint64 // number of the trigger
	Stamp                uint64 // ns since 1970, UTC
}

// maxWords is how many bytes they have at most.
const maxWords = 16

// flags announce the words in the header of a frame.
func (w *Words) flags() (flags uint8) {
	if w.HasTrigger {
		flags |= 8
	}
	if w.HasStamp {
		flags |= 16
	}
	return flags
}

// appendTo appends the words to the header of a frame.
func (w *Words) appendTo(header []byte) []byte {
	if w.HasTrigger {
		header = binary.LittleEndian.AppendUint64(header, w.Trigger)
	}
	if w.HasStamp {
		header = binary.LittleEndian.AppendUint64(header, w.Stamp)
	}
	return header
}
