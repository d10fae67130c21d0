package placing

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind is a signal's first byte.
type Kind uint8

// Kinds of signals between units.
const (
	KindBarrier  Kind = 1 // the rest is a message of package barrier
	KindAnnounce Kind = 2
	KindGrant    Kind = 3
)

// Sizes in bytes; docs/format/placing.md draws the messages.
const (
	announceHeader = 32
	announceEntry  = 8
	GrantSize      = 40
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

// Append writes the message. Entries must be at most MaxEntries.
func (a *Announce) Append(b []byte) []byte {
	b = append(b, byte(KindAnnounce), 0)
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

// Parse reads the message; it reuses a.Entries.
func (a *Announce) Parse(b []byte) error {
	if len(b) < announceHeader || Kind(b[0]) != KindAnnounce {
		return fmt.Errorf("%w: an announcement of %d bytes, at least %d are needed", ErrMessage, len(b), announceHeader)
	}
	a.RU = binary.LittleEndian.Uint16(b[2:])
	a.First = binary.LittleEndian.Uint16(b[4:])
	a.Streams = binary.LittleEndian.Uint16(b[6:])
	a.Slot = binary.LittleEndian.Uint32(b[8:])
	a.Attempt = binary.LittleEndian.Uint32(b[12:])
	a.MEP = binary.LittleEndian.Uint64(b[16:])
	n := int(binary.LittleEndian.Uint16(b[24:]))
	if n > MaxEntries || len(b) != announceHeader+n*announceEntry || int(a.First)+n > int(a.Streams) {
		return fmt.Errorf("%w: an announcement of %d bytes for streams %d to %d of %d", ErrMessage, len(b), a.First, int(a.First)+n, a.Streams)
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

// Append writes the message.
func (g *Grant) Append(b []byte) []byte {
	b = append(b, byte(KindGrant), 0, 0, 0)
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
	if len(b) != GrantSize || Kind(b[0]) != KindGrant {
		return fmt.Errorf("%w: a grant of %d bytes, not %d", ErrMessage, len(b), GrantSize)
	}
	g.Slot = binary.LittleEndian.Uint32(b[4:])
	g.Attempt = binary.LittleEndian.Uint32(b[8:])
	g.Window = binary.LittleEndian.Uint32(b[12:])
	g.MEP = binary.LittleEndian.Uint64(b[16:])
	g.Gen = binary.LittleEndian.Uint32(b[24:])
	g.Length = binary.LittleEndian.Uint32(b[28:])
	return nil
}
