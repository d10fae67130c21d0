package placing

import (
	"encoding/binary"
	"fmt"
)

// SettledSize is the size of the message in bytes; docs/format/placing.md draws it.
const SettledSize = 8

// AppendSettled writes the message by which a readout unit tells a builder unit that nothing of so many exclusions of
// it is under way any more.
func AppendSettled(b []byte, exclusions uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(KindSettled), version, 0, 0), exclusions)
}

// ParseSettled reads that message.
func ParseSettled(b []byte) (exclusions uint32, err error) {
	if err := head(b, "a settlement", KindSettled, SettledSize, [2]int{2, 4}); err != nil {
		return 0, err
	}
	if len(b) != SettledSize {
		return 0, fmt.Errorf("%w: a settlement of %d bytes, not %d", ErrMessage, len(b), SettledSize)
	}
	if exclusions = binary.LittleEndian.Uint32(b[4:]); exclusions == 0 {
		return 0, fmt.Errorf("%w: a settlement of no exclusion", ErrMessage)
	}
	return exclusions, nil
}
