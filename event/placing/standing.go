package placing

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sizes in bytes; docs/format/placing.md draws the messages.
const (
	askSize        = 8
	standingHeader = 8
	standingGrant  = 8
)

// MaxStanding is how many grants one Standing holds; a builder unit with more slots sends several.
const MaxStanding = 120

// AppendAsk writes the message by which a readout unit asks a builder unit for its standing grants.
func AppendAsk(b []byte) []byte { return append(b, byte(KindAsk), version, 0, 0, 0, 0, 0, 0) }

// ParseAsk checks that message.
func ParseAsk(b []byte) error {
	if err := head(b, "a question", KindAsk, askSize, [2]int{2, askSize}); err != nil {
		return err
	}
	if len(b) != askSize {
		return fmt.Errorf("%w: a question of %d bytes, not %d", ErrMessage, len(b), askSize)
	}
	return nil
}

// A Ref names a window of the builder unit's export table, and which of the window's lives; shmem.Ref is the same.
type Ref struct{ Window, Gen uint32 }

// A Standing gives a readout unit its windows in the slots [First, First+len(Refs)) of a builder unit, for as long as
// the units live.
type Standing struct {
	First uint32
	Refs  []Ref
}

// Append writes the message. There must be no more than MaxStanding grants.
func (s *Standing) Append(b []byte) []byte {
	b = append(b, byte(KindStanding), version)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s.Refs)))
	b = binary.LittleEndian.AppendUint32(b, s.First)
	for _, r := range s.Refs {
		b = binary.LittleEndian.AppendUint32(b, r.Window)
		b = binary.LittleEndian.AppendUint32(b, r.Gen)
	}
	return b
}

// Parse reads the message; it reuses s.Refs.
func (s *Standing) Parse(b []byte) error {
	if err := head(b, "standing grants", KindStanding, standingHeader); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	first := binary.LittleEndian.Uint32(b[4:])
	if n == 0 || n > MaxStanding || len(b) != standingHeader+n*standingGrant || first > math.MaxUint32-uint32(n) {
		return fmt.Errorf("%w: standing grants of %d bytes for %d slots from slot %d", ErrMessage, len(b), n, first)
	}
	s.First, s.Refs = first, s.Refs[:0]
	for b = b[standingHeader:]; len(b) > 0; b = b[standingGrant:] {
		s.Refs = append(s.Refs, Ref{Window: binary.LittleEndian.Uint32(b), Gen: binary.LittleEndian.Uint32(b[4:])})
	}
	return nil
}
