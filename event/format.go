package event

import (
	"bytes"
	"encoding/binary"
)

// DetectFormat tells by its first 12 bytes whether a file holds records or packets: FormatMDF, FormatMEP, FormatMFP, or
// "" where they tell nothing.
func DetectFormat(head []byte) string {
	if len(head) >= 12 && bytes.Equal(head[:4], head[4:8]) && bytes.Equal(head[:4], head[8:12]) {
		return FormatMDF // the three sizes of a record, whose bytes may be those of a magic number
	}
	if len(head) < 2 {
		return ""
	}
	switch binary.LittleEndian.Uint16(head) {
	case MEPMagic:
		return FormatMEP
	case MFPMagic:
		return FormatMFP
	}
	return ""
}
