package shmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
)

// SlotState says who owns a slot.
type SlotState uint8

const (
	// SlotFree is nobody's. The builder unit may offer it.
	SlotFree SlotState = iota
	// SlotOffered is the scheduler's. It is on TagNet's list of free slots, or has a token.
	SlotOffered
	// SlotFilling is the readout units'. Grants to its bytes are live.
	SlotFilling
	// SlotBuilt is the consumer's. It holds a complete MEP.
	SlotBuilt

	slotStates
)

var slotStateNames = [slotStates]string{"free", "offered", "filling", "built"}

// String names the state.
func (s SlotState) String() string {
	if s < slotStates {
		return slotStateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// The layout of a slots segment, drawn in docs/format/segment.md.
const (
	slotsMagic   = uint64(0x544F4C534C474E52) // "RNGLSLOT" in memory
	slotsVersion = 1

	offSlotCount = 0x10
	offSlotSize  = 0x18
	offSlotData  = 0x20
	slotLine     = 64 // the first line is the header, then one for each slot; slots are whole lines

	offSlotState = 0x00 // changes<<8 | state
	offSlotUsed  = 0x08
	offSlotTag   = 0x10
)

// maxSlots keeps sizes computed from a header far from overflow.
const maxSlots = 1 << 24

// Slots is a segment divided into slots of one size, each with one owner at a time:
//
//	Free ─Offer→ Offered ─Fill→ Filling ─Build→ Built ─Free→ Free
//	              └─Withdraw→ Free  └─Abandon→ Free
//
// Turn takes slots from Offered through all of that to Offered again at once.
//
// The creator takes the steps, from any goroutine; of two that try the same step of a slot, one
// succeeds. Another process may open the segment and watch.
type Slots struct {
	// immutable after CreateSlots or OpenSlots
	seg     *Segment
	mem     []byte
	n, size int
	data    int // offset of slot 0 in the segment, bytes
	owner   bool

	// atomic
	inUse, high                             atomic.Int64
	offered, built, abandoned, taken, wrong atomic.Uint64
}

// CreateSlots makes the segment dir/name with n slots of size bytes, rounded up to cache lines: small
// slots lie so close that thousands of them stay in a cache, and no two share a line. Errors
// are those of Create; ErrBadSize also where there are no slots, or more than 2^24.
func CreateSlots(name string, n, size int, opts ...Option) (*Slots, error) {
	fail := func(err error) (*Slots, error) {
		return nil, &SegmentError{Op: "create", Path: name, Err: err}
	}
	if !hostFits() {
		return fail(ErrHost)
	}
	if n <= 0 || n > maxSlots || size <= 0 || size > (math.MaxInt-1<<40)/n {
		return fail(ErrBadSize)
	}
	size = roundUp(size, slotLine)
	data := roundUp(slotLine*(n+1), PageSize)
	seg, err := create(name, data+n*size, func(s *Segment) error {
		le := binary.LittleEndian
		le.PutUint64(s.mem[offMagic:], slotsMagic)
		le.PutUint32(s.mem[offVersion:], slotsVersion)
		le.PutUint64(s.mem[offSlotCount:], uint64(n))
		le.PutUint64(s.mem[offSlotSize:], uint64(size))
		le.PutUint64(s.mem[offSlotData:], uint64(data))
		return nil
	}, opts)
	if err != nil {
		return nil, err
	}
	return &Slots{seg: seg, mem: seg.Bytes(), n: n, size: size, data: data, owner: true}, nil
}

// OpenSlots maps the slots that another process made, to watch them: every step is refused with
// ErrReadOnly. Errors are those of Open, or *CorruptError.
func OpenSlots(name string, opts ...Option) (*Slots, error) {
	if !hostFits() {
		return nil, &SegmentError{Op: "open", Path: name, Err: ErrHost}
	}
	seg, err := Open(name, append(opts[:len(opts):len(opts)], WithReadOnly())...)
	if err != nil {
		return nil, err
	}
	s := &Slots{seg: seg, mem: seg.Bytes()}
	if err := s.readHeader(name); err != nil {
		return nil, errors.Join(err, seg.Close())
	}
	return s, nil
}

func (s *Slots) readHeader(name string) error {
	corrupt := func(what string, value uint64, reason string) error {
		return &CorruptError{Segment: name, What: what, Value: value, Reason: reason}
	}
	if len(s.mem) < PageSize {
		return corrupt("size", uint64(len(s.mem)), "too small for slots")
	}
	le := binary.LittleEndian
	magic, version := le.Uint64(s.mem[offMagic:]), le.Uint32(s.mem[offVersion:])
	n, size, data := le.Uint64(s.mem[offSlotCount:]), le.Uint64(s.mem[offSlotSize:]), le.Uint64(s.mem[offSlotData:])
	total := uint64(len(s.mem))
	switch {
	case magic != slotsMagic:
		return corrupt("magic", magic, "not a segment of slots")
	case version != slotsVersion:
		return corrupt("version", uint64(version), "another version of the layout")
	case n == 0 || n > maxSlots:
		return corrupt("slot count", n, "not in [1, 2^24]")
	case data != uint64(roundUp(slotLine*(int(n)+1), PageSize)) || data > total:
		return corrupt("data offset", data, "not behind the state words")
	case size == 0 || size%slotLine != 0 || size != (total-data)/n || size*n != total-data:
		return corrupt("slot size", size, "not what the segment holds")
	}
	s.n, s.size, s.data = int(n), int(size), int(data)
	return nil
}

// Len is the number of slots.
func (s *Slots) Len() int { return s.n }

// SlotSize is the size of each slot, bytes.
func (s *Slots) SlotSize() int { return s.size }

// Segment is the segment the slots lie in, for Table.Export.
func (s *Slots) Segment() *Segment { return s.seg }

// Offset is where slot i begins in the segment, bytes, for Table.Grant; -1 where there is no slot i.
func (s *Slots) Offset(i int) int {
	if i < 0 || i >= s.n {
		return -1
	}
	return s.data + i*s.size
}

// Bytes is the memory of slot i; nil where there is no slot i. Whose they are, the state says.
func (s *Slots) Bytes(i int) []byte {
	off := s.Offset(i)
	if off < 0 {
		return nil
	}
	return s.mem[off : off+s.size : off+s.size]
}

// SlotInfo is what the state words of a slot say.
type SlotInfo struct {
	State   SlotState
	Changes uint64 // steps taken, modulo 2^56: equal before and after a look means unchanged
	Used    int    // bytes of the MEP while Built
	Tag     uint64 // id of the MEP while Filling and Built
}

// lookRounds bounds how often Info looks for a moment without a step going on. A step is a few
// stores; only a creator that died within one, or nonsense, lasts longer.
const lookRounds = 1 << 14

// Info reads the state of slot i, a consistent picture. The error is a *SlotError with
// ErrNoSlot, or a *CorruptError where another process wrote nonsense.
func (s *Slots) Info(i int) (SlotInfo, error) {
	if i < 0 || i >= s.n {
		return SlotInfo{}, &SlotError{Segment: s.seg.Name(), Slot: i, Err: ErrNoSlot}
	}
	state, used, tag := s.words(i)
	var before uint64
	for range lookRounds {
		before = state.Load()
		n, t := used.Load(), tag.Load()
		if before&busy != 0 || state.Load() != before {
			runtime.Gosched()
			continue
		}
		info := SlotInfo{State: SlotState(before), Changes: before >> 8, Used: int(n), Tag: t}
		if info.State >= slotStates || n > uint64(s.size) {
			break
		}
		return info, nil
	}
	return SlotInfo{}, &CorruptError{Segment: s.seg.Name(), What: fmt.Sprintf("state of slot %d", i), Value: before,
		Reason: fmt.Sprintf("%v with %d bytes used of %d", SlotState(before), used.Load(), s.size)}
}

func (s *Slots) words(i int) (state, used, tag *atomic.Uint64) {
	at := slotLine * (i + 1)
	return word64(s.mem, at+offSlotState), word64(s.mem, at+offSlotUsed), word64(s.mem, at+offSlotTag)
}
