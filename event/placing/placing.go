package placing

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// messageVersion of the messages, in their second byte. Another one is refused.
const messageVersion = 1

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
	announceHeaderSize = 32
	announceEntrySize  = 8
	grantSize          = 40
	maxSignalSize      = 1024
)

// MaxEntries is how many MFPs one Announce holds; a readout unit with more streams sends several.
const MaxEntries = (maxSignalSize - announceHeaderSize) / announceEntrySize

// ErrBadMessage is wrapped by every error of Parse.
var ErrBadMessage = errors.New("malformed placing message")

// An Entry is one MFP: its bytes, and their CRC-32C (0 when not computed).
type Entry struct {
	Size uint32
	CRC  uint32
}

// An Announce tells, for one MEP, the MFPs of streams [First, First+len(Entries)) of one readout unit, out of Streams.
type Announce struct {
	RU          uint16
	FirstStream uint16
	StreamCount uint16
	Slot        uint32
	Attempt     uint32
	MEP         uint64
	Entries     []Entry
}

// Append writes the message. There must be no more than MaxEntries entries.
func (a *Announce) Append(b []byte) []byte {
	b = append(b, byte(KindAnnounce), messageVersion)
	b = binary.LittleEndian.AppendUint16(b, a.RU)
	b = binary.LittleEndian.AppendUint16(b, a.FirstStream)
	b = binary.LittleEndian.AppendUint16(b, a.StreamCount)
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
		return fmt.Errorf("%w: %s of %d bytes, at least %d are needed", ErrBadMessage, what, len(b), least)
	case Kind(b[0]) != kind:
		return fmt.Errorf("%w: %s of kind %d, not %d", ErrBadMessage, what, b[0], kind)
	case b[1] != messageVersion:
		return fmt.Errorf("%w: %s of version %d, this is version %d", ErrBadMessage, what, b[1], messageVersion)
	}
	for _, r := range reserved {
		for i := r[0]; i < r[1]; i++ {
			if b[i] != 0 {
				return fmt.Errorf("%w: %s whose reserved byte %d is %d", ErrBadMessage, what, i, b[i])
			}
		}
	}
	return nil
}

// Parse reads the message; it reuses a.Entries.
func (a *Announce) Parse(b []byte) error {
	if err := checkHeader(b, "an announcement", KindAnnounce, announceHeaderSize, [2]int{26, 32}); err != nil {
		return err
	}
	a.RU = binary.LittleEndian.Uint16(b[2:])
	a.FirstStream = binary.LittleEndian.Uint16(b[4:])
	a.StreamCount = binary.LittleEndian.Uint16(b[6:])
	a.Slot = binary.LittleEndian.Uint32(b[8:])
	a.Attempt = binary.LittleEndian.Uint32(b[12:])
	a.MEP = binary.LittleEndian.Uint64(b[16:])
	n := int(binary.LittleEndian.Uint16(b[24:]))
	if n > MaxEntries || len(b) != announceHeaderSize+n*announceEntrySize || int(a.FirstStream)+n > int(a.StreamCount) {
		return fmt.Errorf("%w: an announcement of %d bytes with %d sizes, from stream %d of %d", ErrBadMessage, len(b), n,
			a.FirstStream, a.StreamCount)
	}
	a.Entries = a.Entries[:0]
	for b = b[announceHeaderSize:]; len(b) > 0; b = b[announceEntrySize:] {
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
	b = append(b, byte(KindGrant), messageVersion, 0, 0)
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
		return fmt.Errorf("%w: a grant of %d bytes, not %d", ErrBadMessage, len(b), grantSize)
	}
	g.Slot = binary.LittleEndian.Uint32(b[4:])
	g.Attempt = binary.LittleEndian.Uint32(b[8:])
	g.Window = binary.LittleEndian.Uint32(b[12:])
	g.MEP = binary.LittleEndian.Uint64(b[16:])
	g.Gen = binary.LittleEndian.Uint32(b[24:])
	g.Length = binary.LittleEndian.Uint32(b[28:])
	return nil
}
