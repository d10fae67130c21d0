package placing

import (
	"encoding/binary"
	"fmt"
	"math"

	"ringlet/event"
)

// partAlign is what the parts of a slot are aligned to, in bytes.
const partAlign = 8

// EntrySize is the size in bytes of an Entry, in an Announce and in front of a part alike.
const EntrySize = announceEntrySize

// MaxPartSize is the largest part that has a pre-granted window, in bytes. What is larger is moved in pieces of many
// datagrams anyway, so that a round trip per MEP costs little, and memory for the largest MEP in each slot costs much.
const MaxPartSize = 64 << 10

// A Layout says where the readout units' parts lie in every slot of every builder unit, where windows are granted
// once for all MEPs: the MEP's header at 0, then a pre-granted window for each readout unit's part, in order, each as
// large as its part can become. A part is an Entry for each of the unit's sources and behind them the block. It is
// immutable.
type Layout struct {
	Division
	header int   // bytes of the MEP's header
	end    []int // by readout unit: where its window ends, in bytes from the slot's start
}

// PartSize is how many bytes the part of a readout unit takes that has so many sources, and blocks of at most block
// bytes.
func PartSize(sources, block int) int { return alignUp(sources*EntrySize + block) }

func alignUp(n int) int { return (n + partAlign - 1) &^ (partAlign - 1) }

// NewLayout lays a slot out for readout units with the sources of d, whose blocks have at most blocks[i] bytes. It
// refuses what no MEP can hold.
func NewLayout(d Division, blocks []int) (*Layout, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	switch {
	case d.Units() != len(blocks):
		return nil, fmt.Errorf("the sizes of %d blocks are told of %d readout units", len(blocks), d.Units())
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

// EntriesSize is the number of bytes of a part's entries: where its block begins.
func (l *Layout) EntriesSize(ru int) int { return l.SourceCount(ru) * EntrySize }

// PartRange is the window for the part of a readout unit, in bytes: from the slot's start, and how many.
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

// Immediate is what a readout unit tells with its part: the low 32 bits of the MEP, the attempt, and the slot, which
// has 24 bits.
func Immediate(mep uint64, attempt uint8, slot uint32) uint64 {
	return mep<<32 | uint64(attempt)<<24 | uint64(slot&(1<<24-1))
}

// ParseImmediate is the inverse of Immediate.
func ParseImmediate(imm uint64) (mep uint32, attempt uint8, slot uint32) {
	return uint32(imm >> 32), uint8(imm >> 24), uint32(imm) & (1<<24 - 1)
}
