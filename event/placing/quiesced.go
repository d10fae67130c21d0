package placing

import (
	"encoding/binary"
	"fmt"
)

// QuiescedSize is the size of the message in bytes; docs/format/placing.md draws it.
const QuiescedSize = 8

// AppendQuiesced writes the message by which a readout unit tells a builder unit that nothing of so many exclusions of
// it is under way any more.
func AppendQuiesced(b []byte, exclusions uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(KindQuiesced), messageVersion, 0, 0), exclusions)
}

// ParseQuiesced reads that message.
func ParseQuiesced(b []byte) (exclusions uint32, err error) {
	if err := checkHeader(b, "a quiesced message", KindQuiesced, QuiescedSize, [2]int{2, 4}); err != nil {
		return 0, err
	}
	if len(b) != QuiescedSize {
		return 0, fmt.Errorf("%w: a quiesced message of %d bytes, not %d", ErrBadMessage, len(b), QuiescedSize)
	}
	if exclusions = binary.LittleEndian.Uint32(b[4:]); exclusions == 0 {
		return 0, fmt.Errorf("%w: a quiesced message of no exclusion", ErrBadMessage)
	}
	return exclusions, nil
}
