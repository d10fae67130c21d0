package placing

import (
	"encoding/binary"
	"fmt"
)

// MaxTagWords is the most words that a tag takes; tagnet.MaxTagWords is the same.
const MaxTagWords = 19

const tagHeaderSize = 8

// AppendTag writes the message by which a readout unit passes a tag on. What its words mean is the scheduler's business
// (docs/format/tagnet.md).
func AppendTag(b []byte, words []uint64) []byte {
	b = append(b, byte(KindTag), messageVersion, 0, 0, 0, 0, 0, 0)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// ParseTag reads the words of that message into dst.
func ParseTag(dst *[MaxTagWords]uint64, b []byte) ([]uint64, error) {
	if err := checkHeader(b, "a tag", KindTag, tagHeaderSize, [2]int{2, tagHeaderSize}); err != nil {
		return nil, err
	}
	n := (len(b) - tagHeaderSize) / 8
	if n > MaxTagWords || len(b) != tagHeaderSize+8*n {
		return nil, fmt.Errorf("%w: a tag of %d bytes, not of at most %d words", ErrBadMessage, len(b), MaxTagWords)
	}
	for i := range n {
		dst[i] = binary.LittleEndian.Uint64(b[tagHeaderSize+8*i:])
	}
	return dst[:n], nil
}
