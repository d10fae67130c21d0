package placing

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sizes in bytes; docs/format/placing.md draws the messages.
const (
	windowRequestSize   = 8
	preGrantsHeaderSize = 8
	preGrantSize        = 8
)

// MaxPreGrants is how many grants one PreGrants holds; a builder unit with more slots sends several.
const MaxPreGrants = 120

// AppendWindowRequest writes the message by which a readout unit asks a builder unit for its pre-granted windows.
func AppendWindowRequest(b []byte) []byte {
	return append(b, byte(KindWindowRequest), messageVersion, 0, 0, 0, 0, 0, 0)
}

// ParseWindowRequest checks that message.
func ParseWindowRequest(b []byte) error {
	if err := checkHeader(b, "a window request", KindWindowRequest, windowRequestSize,
		[2]int{2, windowRequestSize}); err != nil {
		return err
	}
	if len(b) != windowRequestSize {
		return fmt.Errorf("%w: a window request of %d bytes, not %d", ErrBadMessage, len(b), windowRequestSize)
	}
	return nil
}

// A Ref names a window of the builder unit's export table, and which of the window's lives; shmem.Ref is the same.
type Ref struct{ Window, Gen uint32 }

// A PreGrants gives a readout unit its windows in the slots [First, First+len(Refs)) of a builder unit, for as long as
// the units live.
type PreGrants struct {
	FirstSlot uint32
	Refs      []Ref
}

// Append writes the message. There must be no more than MaxPreGrants grants.
func (s *PreGrants) Append(b []byte) []byte {
	b = append(b, byte(KindPreGrants), messageVersion)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s.Refs)))
	b = binary.LittleEndian.AppendUint32(b, s.FirstSlot)
	for _, r := range s.Refs {
		b = binary.LittleEndian.AppendUint32(b, r.Window)
		b = binary.LittleEndian.AppendUint32(b, r.Gen)
	}
	return b
}

// Parse reads the message; it reuses s.Refs.
func (s *PreGrants) Parse(b []byte) error {
	if err := checkHeader(b, "pre-granted windows", KindPreGrants, preGrantsHeaderSize); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	first := binary.LittleEndian.Uint32(b[4:])
	if n == 0 || n > MaxPreGrants || len(b) != preGrantsHeaderSize+n*preGrantSize || first > math.MaxUint32-uint32(n) {
		return fmt.Errorf("%w: pre-granted windows of %d bytes for %d slots from slot %d", ErrBadMessage, len(b), n, first)
	}
	s.FirstSlot, s.Refs = first, s.Refs[:0]
	for b = b[preGrantsHeaderSize:]; len(b) > 0; b = b[preGrantSize:] {
		s.Refs = append(s.Refs, Ref{Window: binary.LittleEndian.Uint32(b), Gen: binary.LittleEndian.Uint32(b[4:])})
	}
	return nil
}
