package placing

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// version of the messages, in their second byte. Another one is refused.
const version = 1

// Kind is a signal's first byte.
type Kind uint8

// Kinds of signals between units.
const (
	KindBarrier       Kind = 1 // the rest is a message of package barrier
	KindAnnounce      Kind = 2
	KindGrant         Kind = 3
	KindWindowRequest Kind = 4
	KindPreGrants     Kind = 5
	KindTag           Kind = 6
	KindQuiesced      Kind = 7
	KindDecision      Kind = 8 // the rest is a message of package filter/decision
)

// Sizes in bytes; docs/format/placing.md draws the messages.
const (
	announceHeader = 32
	announceEntry  = 8
	grantSize      = 40
	maxSignal      = 1024
)

// MaxEntries is how many MFPs one Announce holds; a readout unit with more streams sends several.
const MaxEntries = (maxSignal - announceHeader) / announceEntry

// ErrMessage is wrapped by every error of Parse.
var ErrMessage = errors.New("malformed placing message")

// An Entry is one MFP: its bytes, and their CRC-32C (0 when not computed).
type Entry struct {
	Size uint32
	CRC  uint32
}

// An Announce tells, for one MEP, the MFPs of streams [First, First+len(Entries)) of one readout unit, out of Streams.
type Announce struct {
	RU      uint16
	First   uint16
	Streams uint16
	Slot    uint32
	Attempt uint32
	MEP     uint64
	Entries []Entry
}

// Append writes the message. There must be no more than MaxEntries entries.
func (a *Announce) Append(b []byte) []byte {
	b = append(b, byte(KindAnnounce), version)
	b = binary.LittleEndian.AppendUint16(b, a.RU)
	b = binary.LittleEndian.AppendUint16(b, a.First)
	b = binary.LittleEndian.AppendUint16(b, a.Streams)
	b = binary.LittleEndian.AppendUint32(b, a.Slot)
	b = binary.LittleEndian.AppendUint32(b, a.Attempt)
	b = binary.LittleEndian.AppendUint64(b, a.MEP)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(a.Entries)))
	b = append(b, 0, 0, 0, 0, 0, 0)
	for _, e := range a.Entries {
		b = binary.LittleEndian.AppendUint32(b, e.Size)
		b = binary.LittleEndian.AppendUint32(b, e.CRC)
	}
	return b
}

// checkHeader checks a message's length, kind, version and reserved bytes, all of which must be zero so that an
// accepted message encodes to the same bytes again.
func checkHeader(b []byte, what string, kind Kind, least int, reserved ...[2]int) error {
	switch {
	case len(b) < least:
		return fmt.Errorf("%w: %s of %d bytes, at least %d are needed", ErrMessage, what, len(b), least)
	case Kind(b[0]) != kind:
		return fmt.Errorf("%w: %s of kind %d, not %d", ErrMessage, what, b[0], kind)
	case b[1] != version:
		return fmt.Errorf("%w: %s of version %d, this is version %d", ErrMessage, what, b[1], version)
	}
	for _, r := range reserved {
		for i := r[0]; i < r[1]; i++ {
			if b[i] != 0 {
				return fmt.Errorf("%w: %s whose reserved byte %d is %d", ErrMessage, what, i, b[i])
			}
		}
	}
	return nil
}

// Parse reads the message; it reuses a.Entries.
func (a *Announce) Parse(b []byte) error {
	if err := checkHeader(b, "an announcement", KindAnnounce, announceHeader, [2]int{26, 32}); err != nil {
		return err
	}
	a.RU = binary.LittleEndian.Uint16(b[2:])
	a.First = binary.LittleEndian.Uint16(b[4:])
	a.Streams = binary.LittleEndian.Uint16(b[6:])
	a.Slot = binary.LittleEndian.Uint32(b[8:])
	a.Attempt = binary.LittleEndian.Uint32(b[12:])
	a.MEP = binary.LittleEndian.Uint64(b[16:])
	n := int(binary.LittleEndian.Uint16(b[24:]))
	if n > MaxEntries || len(b) != announceHeader+n*announceEntry || int(a.First)+n > int(a.Streams) {
		return fmt.Errorf("%w: an announcement of %d bytes with %d sizes, from stream %d of %d", ErrMessage, len(b), n,
			a.First, a.Streams)
	}
	a.Entries = a.Entries[:0]
	for b = b[announceHeader:]; len(b) > 0; b = b[announceEntry:] {
		a.Entries = append(a.Entries, Entry{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])})
	}
	return nil
}

// A Grant tells a readout unit where its MFPs for one MEP go: Length bytes from the start of a window.
type Grant struct {
	Slot    uint32
	Attempt uint32
	MEP     uint64
	Window  uint32
	Gen     uint32
	Length  uint32
}

// Append writes the message, of grantSize bytes.
func (g *Grant) Append(b []byte) []byte {
	b = append(b, byte(KindGrant), version, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, g.Slot)
	b = binary.LittleEndian.AppendUint32(b, g.Attempt)
	b = binary.LittleEndian.AppendUint32(b, g.Window)
	b = binary.LittleEndian.AppendUint64(b, g.MEP)
	b = binary.LittleEndian.AppendUint32(b, g.Gen)
	b = binary.LittleEndian.AppendUint32(b, g.Length)
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0)
}

// Parse reads the message.
func (g *Grant) Parse(b []byte) error {
	if err := checkHeader(b, "a grant", KindGrant, grantSize, [2]int{2, 4}, [2]int{32, grantSize}); err != nil {
		return err
	}
	if len(b) != grantSize {
		return fmt.Errorf("%w: a grant of %d bytes, not %d", ErrMessage, len(b), grantSize)
	}
	g.Slot = binary.LittleEndian.Uint32(b[4:])
	g.Attempt = binary.LittleEndian.Uint32(b[8:])
	g.Window = binary.LittleEndian.Uint32(b[12:])
	g.MEP = binary.LittleEndian.Uint64(b[16:])
	g.Gen = binary.LittleEndian.Uint32(b[24:])
	g.Length = binary.LittleEndian.Uint32(b[28:])
	return nil
}
