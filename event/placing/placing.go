package placing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"ringlet/event"
)

// messageVersion is the second byte of every message. Parse refuses any other.
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

// An Announce tells, for one MEP, the MFPs of streams [FirstStream, FirstStream+len(Entries)) of one readout unit,
// which has StreamCount streams.
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

// checkHeader checks a message's length, kind, version and reserved bytes. Reserved bytes must be zero: an accepted
// message encodes to the same bytes again.
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
		return fmt.Errorf("%w: an announcement of %d bytes with %d sizes from stream %d on, of %d", ErrBadMessage, len(b), n,
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

// partAlign is the alignment of the parts in a slot, in bytes.
const partAlign = 8

// EntrySize is the size in bytes of an Entry, in an Announce and in front of a part alike.
const EntrySize = announceEntrySize

// MaxPartSize is the largest part that has a pre-granted window, in bytes. A larger part travels in many datagrams, so
// that the round trip of a grant per MEP costs little, while windows for the largest part in each slot cost much
// memory.
const MaxPartSize = 64 << 10

// A Layout says where the readout units' parts lie in every slot of every builder unit, if windows are pre-granted:
// the MEP's header at 0, then a window for each readout unit's part, in order, each as large as the part can become. A
// part is an Entry for each of the unit's sources, and then the block, the unit's MFPs. A Layout is immutable.
type Layout struct {
	Division
	header int   // bytes of the MEP's header
	end    []int // by readout unit: where its window ends, in bytes from the slot's start
}

// PartSize is the window's size in bytes for the part of a readout unit with that many sources and blocks of at most
// block bytes.
func PartSize(sources, block int) int { return alignUp(sources*EntrySize + block) }

func alignUp(n int) int { return (n + partAlign - 1) &^ (partAlign - 1) }

// NewLayout lays a slot out for the readout units of d; the blocks of unit i have at most blocks[i] bytes. It refuses
// more sources or bytes than a MEP can hold.
func NewLayout(d Division, blocks []int) (*Layout, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	switch {
	case d.Units() != len(blocks):
		return nil, fmt.Errorf("there are sizes of %d blocks for %d readout units", len(blocks), d.Units())
	case d.Sources() > event.MaxMFPs:
		return nil, fmt.Errorf("%d sources do not make a MEP: it holds at most %d MFPs", d.Sources(), event.MaxMFPs)
	}
	l := &Layout{Division: d, header: alignUp(event.MEPHeaderSize(d.Sources())), end: make([]int, len(blocks))}
	at := int64(l.header)
	for i, block := range blocks {
		if block < 0 || int64(block) > math.MaxUint32-int64(d.SourceCount(i)*EntrySize+partAlign) {
			return nil, fmt.Errorf("blocks of %d bytes of readout unit %d do not fit the 4 GiB of a part", block, i)
		}
		at += int64(PartSize(d.SourceCount(i), block))
		if at > event.MEPWordBytes*math.MaxUint32 {
			return nil, fmt.Errorf("the parts of %d readout units take more than the 16 GiB of a MEP", i+1)
		}
		l.end[i] = int(at)
	}
	return l, nil
}

// EntriesSize is the size in bytes of the entries of ru's part, and the offset of its block.
func (l *Layout) EntriesSize(ru int) int { return l.SourceCount(ru) * EntrySize }

// PartRange is the window for the part of a readout unit: its offset from the slot's start and its size, in bytes.
func (l *Layout) PartRange(ru int) (offset, size int) {
	from := l.header
	if ru > 0 {
		from = l.end[ru-1]
	}
	return from, l.end[ru] - from
}

// Size is the number of bytes that a slot must have.
func (l *Layout) Size() int { return l.end[len(l.end)-1] }

// PutEntry writes entry i in front of a part.
func PutEntry(part []byte, i int, e Entry) {
	b := part[i*EntrySize : (i+1)*EntrySize]
	binary.LittleEndian.PutUint32(b, e.Size)
	binary.LittleEndian.PutUint32(b[4:], e.CRC)
}

// ReadEntry reads entry i in front of a part.
func ReadEntry(part []byte, i int) Entry {
	b := part[i*EntrySize : (i+1)*EntrySize]
	return Entry{Size: binary.LittleEndian.Uint32(b), CRC: binary.LittleEndian.Uint32(b[4:])}
}

// Immediate is the immediate value of the remote write of a part: the low 32 bits of the MEP, the attempt, and the low
// 24 bits of the slot.
func Immediate(mep uint64, attempt uint8, slot uint32) uint64 {
	return mep<<32 | uint64(attempt)<<24 | uint64(slot&(1<<24-1))
}

// ParseImmediate is the inverse of Immediate.
func ParseImmediate(imm uint64) (mep uint32, attempt uint8, slot uint32) {
	return uint32(imm >> 32), uint8(imm >> 24), uint32(imm) & (1<<24 - 1)
}

// Sizes in bytes; docs/format/placing.md draws the messages.
const (
	windowRequestSize   = 8
	preGrantsHeaderSize = 8
	preGrantSize        = 8
)

// MaxPreGrants is how many grants one PreGrants holds; a builder unit with more slots sends several.
const MaxPreGrants = 120

// AppendWindowRequest appends the message by which a readout unit asks a builder unit for its pre-granted windows.
func AppendWindowRequest(b []byte) []byte {
	return append(b, byte(KindWindowRequest), messageVersion, 0, 0, 0, 0, 0, 0)
}

// ParseWindowRequest checks a window request.
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

// A Ref names a window of the builder unit's export table, and the generation of its grant; shmem.Ref is the same.
type Ref struct{ Window, Gen uint32 }

// A PreGrants gives a readout unit its windows in the slots [FirstSlot, FirstSlot+len(Refs)) of a builder unit, for as
// long as the units live.
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
		return fmt.Errorf("%w: pre-granted windows for %d slots from slot %d on, in %d bytes: 1 to %d fit, %d bytes each",
			ErrBadMessage, n, first, len(b), MaxPreGrants, preGrantSize)
	}
	s.FirstSlot, s.Refs = first, s.Refs[:0]
	for b = b[preGrantsHeaderSize:]; len(b) > 0; b = b[preGrantSize:] {
		s.Refs = append(s.Refs, Ref{Window: binary.LittleEndian.Uint32(b), Gen: binary.LittleEndian.Uint32(b[4:])})
	}
	return nil
}

// QuiescedSize is the size of the message in bytes; docs/format/placing.md draws it.
const QuiescedSize = 8

// AppendQuiesced appends the message by which a readout unit tells an excluded builder unit that none of its writes to
// the builder unit is under way: the builder unit may come back. exclusions is how often the builder unit has been
// excluded so far.
func AppendQuiesced(b []byte, exclusions uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(KindQuiesced), messageVersion, 0, 0), exclusions)
}

// ParseQuiesced reads a quiesced message.
func ParseQuiesced(b []byte) (exclusions uint32, err error) {
	if err := checkHeader(b, "a quiesced message", KindQuiesced, QuiescedSize, [2]int{2, 4}); err != nil {
		return 0, err
	}
	if len(b) != QuiescedSize {
		return 0, fmt.Errorf("%w: a quiesced message of %d bytes, not %d", ErrBadMessage, len(b), QuiescedSize)
	}
	if exclusions = binary.LittleEndian.Uint32(b[4:]); exclusions == 0 {
		return 0, fmt.Errorf("%w: a quiesced message for exclusion 0, they count from 1", ErrBadMessage)
	}
	return exclusions, nil
}

// MaxTagWords is the most words that a tag takes; tagnet.MaxTagWords is the same.
const MaxTagWords = 19

const tagHeaderSize = 8

// AppendTag appends the message by which a readout unit passes a tag on. docs/format/tagnet.md says what its words
// mean.
func AppendTag(b []byte, words []uint64) []byte {
	b = append(b, byte(KindTag), messageVersion, 0, 0, 0, 0, 0, 0)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// ParseTag reads the words of a tag message into dst.
func ParseTag(dst *[MaxTagWords]uint64, b []byte) ([]uint64, error) {
	if err := checkHeader(b, "a tag", KindTag, tagHeaderSize, [2]int{2, tagHeaderSize}); err != nil {
		return nil, err
	}
	n := (len(b) - tagHeaderSize) / 8
	if n > MaxTagWords || len(b) != tagHeaderSize+8*n {
		return nil, fmt.Errorf("%w: a tag of %d bytes: it has a header of %d bytes and up to %d words of 8", ErrBadMessage,
			len(b), tagHeaderSize, MaxTagWords)
	}
	for i := range n {
		dst[i] = binary.LittleEndian.Uint64(b[tagHeaderSize+8*i:])
	}
	return dst[:n], nil
}
