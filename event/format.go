package event

import (
	"bytes"
	"encoding/binary"
)

// DetectFormat returns the format of a file, by its first 12 bytes: FormatMDF, FormatMEP or FormatMFP; "" if they match
// none.
func DetectFormat(head []byte) string {
	if len(head) >= 12 && bytes.Equal(head[:4], head[4:8]) && bytes.Equal(head[:4], head[8:12]) {
		return FormatMDF // the three sizes of a record, whose bytes may be those of a magic number
	}
	return DetectPacket(head)
}

// DetectPacket returns FormatMEP or FormatMFP by the magic number at the beginning of a packet; "" if it is of neither.
func DetectPacket(head []byte) string {
	if len(head) < 2 {
		return ""
	}
	switch binary.LittleEndian.Uint16(head) {
	case MEPMagic:
		return FormatMEP
	case MFPMagic, WideMFPMagic, WordedMFPMagic:
		return FormatMFP
	}
	return ""
}
