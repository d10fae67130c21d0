package shmem

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"
)

// Mode says how several readers of a buffer divide the entries. It is fixed at creation.
type Mode uint32

const (
	// Broadcast gives every reader every entry; a place is free again when all have acknowledged it.
	Broadcast Mode = 1
	// Sharing gives every entry to one reader, whichever asks first.
	Sharing Mode = 2
)

// String names the mode.
func (m Mode) String() string {
	switch m {
	case Broadcast:
		return "broadcast"
	case Sharing:
		return "sharing"
	}
	return fmt.Sprintf("mode(%d)", uint32(m))
}

// maxReaders is how many readers a buffer can have at a time.
const maxReaders = 16

// The layout of a buffer's segment, drawn in docs/format/buffer.md. Words that different
// processes write lie on different cache lines.
const (
	bufferMagic   = uint64(0x524655424C474E52) // "RNGLBUFR" in memory
	bufferVersion = 1
	bufferHeader  = PageSize

	offMagic    = 0x000
	offVersion  = 0x008 // u32
	offMode     = 0x00C // u32
	offData     = 0x010
	offCapacity = 0x018
	offReaders  = 0x020 // u32
	offPID      = 0x024 // u32
	offHead     = 0x040
	offFloor    = 0x080
	offEnded    = 0x0C0
	offNext     = 0x100
	offLost     = 0x140
	offDataBell = 0x180 // u32 sequence, u32 waiters
	offRoomBell = 0x1C0 // u32 sequence, u32 waiters
	offLeft     = 0x200
	offReader   = 0x400

	readerStride = 0x80
	offState     = 0x00 // u32
	offReaderPID = 0x04 // u32
	offTail      = 0x40
	offGiven     = 0x48
	offAcked     = 0x50
)

// Values of a reader's state word.
const (
	readerFree    = 0
	readerJoining = 1
	readerActive  = 2
)

// Values of the ended word.
const (
	running  = 0
	runEnded = 1 // End was called: no entry follows
	runLeft  = 2 // the writer closed without End
)

// tailIdle in the tail word of a sharing reader: it holds no entry and claims none.
const tailIdle = math.MaxUint64

// An entry is a header of 16 bytes and its data, padded to a multiple of 16.
const (
	entryHeader = 16
	entryAlign  = 16

	// padType marks a place without an entry: the rest of the ring before it wraps, or a place
	// cancelled by the writer. It is no type for an entry.
	padType = math.MaxUint32
)

// ring is a view of a buffer's shared memory. What it reads may have been written by another
// process, and is checked before it is used.
type ring struct {
	name     string
	mode     Mode
	capacity uint64 // bytes of data; equal to len(data)
	data     []byte

	head  *atomic.Uint64 // written by the writer: bytes published since creation
	floor *atomic.Uint64 // written by the writer: bytes below may be overwritten
	ended *atomic.Uint64 // written by the writer
	next  *atomic.Uint64 // sharing: claimed up to here; by all readers
	lost  *atomic.Uint64 // entries given to a reader that never acknowledged them
	left  *atomic.Uint64 // broadcast: highest tail of a reader that went away

	entries bell // rung when head or ended changes
	room    bell // rung when a tail, next or a reader's state changes

	readers [maxReaders]readerWords
}

// readerWords are the shared words of one reader.
type readerWords struct {
	state, pid         *atomic.Uint32
	tail, given, acked *atomic.Uint64
}

func word64(mem []byte, off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(mem[off : off+8])))
}

func word32(mem []byte, off int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(mem[off : off+4])))
}

// hostFits says whether this machine's words are those of the layouts.
func hostFits() bool {
	return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 && math.MaxInt == math.MaxInt64
}

// initRing writes the header of a new buffer into zeroed memory.
func initRing(mem []byte, mode Mode, pid uint32) {
	le := binary.LittleEndian
	le.PutUint64(mem[offMagic:], bufferMagic)
	le.PutUint32(mem[offVersion:], bufferVersion)
	le.PutUint32(mem[offMode:], uint32(mode))
	le.PutUint64(mem[offData:], bufferHeader)
	le.PutUint64(mem[offCapacity:], uint64(len(mem)-bufferHeader))
	le.PutUint32(mem[offReaders:], maxReaders)
	le.PutUint32(mem[offPID:], pid)
}

// openRing checks the header of a buffer and returns its view. mem must be aligned to 8 bytes.
func openRing(name string, mem []byte) (*ring, error) {
	if len(mem) < bufferHeader+PageSize {
		return nil, &corruptError{Segment: name, What: "size", Value: uint64(len(mem)), Reason: "too small for a buffer"}
	}
	le := binary.LittleEndian
	r := &ring{name: name, mode: Mode(le.Uint32(mem[offMode:])), data: mem[bufferHeader:]}
	r.capacity = uint64(len(r.data))
	for _, c := range []struct {
		what   string
		got    uint64
		want   uint64
		reason string
	}{
		{"magic", le.Uint64(mem[offMagic:]), bufferMagic, "not a Ringlet buffer"},
		{"version", uint64(le.Uint32(mem[offVersion:])), bufferVersion, "another version of the layout"},
		{"mode", uint64(r.mode), uint64(min(max(r.mode, Broadcast), Sharing)), "not a known mode"},
		{"data offset", le.Uint64(mem[offData:]), bufferHeader, "not behind the header"},
		{"capacity", le.Uint64(mem[offCapacity:]), r.capacity, "not what the segment holds"},
		{"capacity", r.capacity % PageSize, 0, "not whole pages"},
		{"readers", uint64(le.Uint32(mem[offReaders:])), maxReaders, "not the number of this version"},
	} {
		if c.got != c.want {
			return nil, &corruptError{Segment: name, What: c.what, Value: c.got, Reason: c.reason}
		}
	}
	r.head, r.floor, r.ended = word64(mem, offHead), word64(mem, offFloor), word64(mem, offEnded)
	r.next, r.lost, r.left = word64(mem, offNext), word64(mem, offLost), word64(mem, offLeft)
	r.entries = bell{word32(mem, offDataBell), word32(mem, offDataBell+4)}
	r.room = bell{word32(mem, offRoomBell), word32(mem, offRoomBell+4)}
	for i := range r.readers {
		at := offReader + i*readerStride
		r.readers[i] = readerWords{
			state: word32(mem, at+offState), pid: word32(mem, at+offReaderPID),
			tail: word64(mem, at+offTail), given: word64(mem, at+offGiven), acked: word64(mem, at+offAcked),
		}
	}
	return r, nil
}

// header of an entry, read once: the shared memory may change behind it.
type header struct {
	length  uint32 // of the data, bytes
	kind    uint32
	stride  uint32 // from this header to the next, bytes
	ordinal uint32 // counts headers, pads included, modulo 2^32
}

func (r *ring) putHeader(pos uint64, h header) {
	b := r.data[pos%r.capacity:][:entryHeader]
	binary.LittleEndian.PutUint32(b[0:], h.length)
	binary.LittleEndian.PutUint32(b[4:], h.kind)
	binary.LittleEndian.PutUint32(b[8:], h.stride)
	binary.LittleEndian.PutUint32(b[12:], h.ordinal)
}

// header reads and checks the header at pos, where pos < head and both are checked.
func (r *ring) header(pos, head uint64) (header, error) {
	off := pos % r.capacity
	b := r.data[off:][:entryHeader]
	h := header{
		length: binary.LittleEndian.Uint32(b[0:]), kind: binary.LittleEndian.Uint32(b[4:]),
		stride: binary.LittleEndian.Uint32(b[8:]), ordinal: binary.LittleEndian.Uint32(b[12:]),
	}
	stride := uint64(h.stride)
	switch {
	case stride < entryHeader || stride%entryAlign != 0:
		return h, r.corruptAt(pos, "stride", stride, "not a multiple of 16, or zero")
	case stride > head-pos:
		return h, r.corruptAt(pos, "stride", stride, "leads past what is published")
	case off+stride > r.capacity:
		return h, r.corruptAt(pos, "stride", stride, "leads past the end of the ring")
	case uint64(h.length) > stride-entryHeader:
		return h, r.corruptAt(pos, "length", uint64(h.length), "more than the place holds")
	}
	return h, nil
}

// dataAt is the data of the entry whose checked header is at pos.
func (r *ring) dataAt(pos uint64, length uint64) []byte {
	off := pos%r.capacity + entryHeader
	return r.data[off : off+length : off+length]
}

// span checks that [from, head) can be a published part of the ring.
func (r *ring) span(from, head uint64) error {
	if from%entryAlign != 0 || head%entryAlign != 0 || head < from || head-from > r.capacity {
		return &corruptError{Segment: r.name, What: "head", Value: head,
			Reason: fmt.Sprintf("it does not fit to position %d", from)}
	}
	return nil
}

func (r *ring) corruptAt(pos uint64, what string, value uint64, reason string) error {
	return &corruptError{Segment: r.name, What: fmt.Sprintf("%s of the entry at %d", what, pos), Value: value,
		Reason: reason}
}
