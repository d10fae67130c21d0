package shmem

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"unsafe"
)

// Mode says how several readers of a buffer share the entries. It is fixed at creation.
type Mode uint32

const (
	// Broadcast gives every reader every entry; a place is free again when all have acknowledged it.
	Broadcast Mode = 1
	// Sharing gives every entry to one reader, the first that asks.
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

// maxReaders is the most readers of a buffer at a time.
const maxReaders = 16

// Constants of a buffer's header, see docs/format/buffer.md.
const (
	bufferMagic   = uint64(0x524655424C474E52) // "RNGLBUFR" in memory
	bufferVersion = 3
	bufferHeader  = PageSize
)

// bufferFormat is the part of a buffer's header that never changes.
type bufferFormat struct {
	magic    uint64
	version  uint32
	mode     Mode
	data     uint64 // offset of the entries
	capacity uint64 // bytes of entries
	readers  uint32
	pid      uint32 // of the writer
	annex    uint64 // bytes of the annex; 0: no annex
}

// lineRest fills a cache line behind a word: words that different processes write are in different cache lines.
type lineRest [64 - 8]byte

// bufferWords is the header of a buffer's segment, as docs/format/buffer.md lists it.
type bufferWords struct {
	format bufferFormat
	_      [64 - unsafe.Sizeof(bufferFormat{})]byte

	head               atomic.Uint64 // written by the writer: bytes published since creation
	_                  lineRest
	floor              atomic.Uint64 // written by the writer: bytes below may be overwritten
	_                  lineRest
	runState           atomic.Uint64 // written by the writer
	entryCount         atomic.Uint64 // number of entries, modulo 2^32; the writer stores it before runState
	_                  [64 - 2*8]byte
	claimedUpTo        atomic.Uint64 // sharing: readers have claimed entries up to here; all readers write it
	_                  lineRest
	entriesLost        atomic.Uint64 // entries delivered to readers that went away before they acknowledged them
	_                  lineRest
	entriesBell        Bell // rung when head or runState changes
	_                  lineRest
	spaceBell          Bell // rung when a tail, claimedUpTo or a reader's state changes
	_                  lineRest
	departedTail       atomic.Uint64 // broadcast: highest tail of a reader that went away
	entriesOverwritten atomic.Uint64 // entries overwritten before lossy readers had read them; these readers write it
	_                  [0x240 - 0x210]byte
	annex              [maxName]byte // name of the annex's segment, zero-padded; fixed at creation
	_                  [0x400 - 0x240 - maxName]byte
	readers            [maxReaders]readerWords
}

// readerWords are the words of one reader in the header.
type readerWords struct {
	state, pid                          atomic.Uint32
	_                                   lineRest
	tail, delivered, acked, overwritten atomic.Uint64
	_                                   [64 - 4*8]byte
}

// wordsOf returns the header at the start of a buffer's memory.
func wordsOf(mem []byte) *bufferWords {
	return (*bufferWords)(unsafe.Pointer(unsafe.SliceData(mem[:bufferHeader])))
}

// Values of a reader's state word.
const (
	readerFree    = 0
	readerJoining = 1
	readerActive  = 2
	readerLossy   = 3 // broadcast: active, and the writer does not wait for it
)

// Values of runState.
const (
	runInProgress = 0
	runEnded      = 1 // End was called: no entry follows
	runAbandoned  = 2 // the writer closed without End
)

// tailIdle is the tail of a sharing reader that holds no entry and claims none.
const tailIdle = math.MaxUint64

// An entry is a header of 16 bytes and its data, padded to a multiple of 16.
const (
	entryHeader = 16
	entryAlign  = 16

	// padType marks a place without an entry: the end of the buffer before it wraps, or a place that the writer cancelled.
	// It is no type of an entry.
	padType = math.MaxUint32
)

// ringBuffer is a view of a buffer's shared memory. Other processes may have written what it reads, so values are
// checked before use.
type ringBuffer struct {
	*bufferWords
	name     string
	mode     Mode
	capacity uint64 // bytes of data; equal to len(data)
	data     []byte
	annex    []byte // the memory that the writer may lend; nil if there is none
}

// hostSupported reports whether this machine's words have the layout's size and byte order.
func hostSupported() bool {
	return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 && math.MaxInt == math.MaxInt64
}

// initBuffer writes the header of a new buffer into zeroed memory.
func initBuffer(mem []byte, mode Mode, pid uint32, annex *Segment) {
	words := wordsOf(mem)
	words.format = bufferFormat{
		magic:    bufferMagic,
		version:  bufferVersion,
		mode:     mode,
		data:     bufferHeader,
		capacity: uint64(len(mem) - bufferHeader),
		readers:  maxReaders,
		pid:      pid,
	}
	if annex != nil {
		words.format.annex = uint64(annex.size)
		copy(words.annex[:], annex.name)
	}
}

// openBuffer checks the header of a buffer and returns its view. mem must be aligned to 8 bytes.
func openBuffer(name string, mem []byte) (*ringBuffer, error) {
	if len(mem) < bufferHeader+PageSize {
		return nil, &corruptError{
			Segment: name,
			What:    "size",
			Value:   uint64(len(mem)),
			Reason:  "too small for a buffer",
		}
	}
	r := &ringBuffer{bufferWords: wordsOf(mem), name: name, data: mem[bufferHeader:]}
	f := r.format // copied once: another process may change it
	r.mode, r.capacity = f.mode, uint64(len(r.data))
	for _, c := range []struct {
		what   string
		got    uint64
		want   uint64
		reason string
	}{
		{"magic", f.magic, bufferMagic, "not a Ringlet buffer"},
		{"version", uint64(f.version), bufferVersion, "this program knows version " + strconv.Itoa(bufferVersion) +
			" of the layout: take programs of one release"},
		{"mode", uint64(f.mode), uint64(min(max(f.mode, Broadcast), Sharing)), "not a known mode"},
		{"data offset", f.data, bufferHeader, "not behind the header"},
		{"capacity", f.capacity, r.capacity, "not what the segment holds"},
		{"capacity", r.capacity % PageSize, 0, "not whole pages"},
		{"readers", uint64(f.readers), maxReaders, "not the number of this version"},
	} {
		if c.got != c.want {
			return nil, &corruptError{
				Segment: name,
				What:    c.what,
				Value:   c.got,
				Reason:  c.reason,
			}
		}
	}
	return r, nil
}

// header is the header of an entry, before its data.
type header struct {
	length  uint32 // of the data, bytes
	kind    uint32
	stride  uint32 // from this header to the next, bytes
	ordinal uint32 // number of the entry, modulo 2^32; of a pad: of the next entry; of a cancelled place: its own
}

// headerAt returns the header at pos, unchecked.
func (r *ringBuffer) headerAt(pos uint64) *header {
	return (*header)(unsafe.Pointer(unsafe.SliceData(r.data[pos%r.capacity:][:entryHeader])))
}

// header returns the checked header at pos; pos < head, and the caller has checked both.
func (r *ringBuffer) header(pos, head uint64) (header, error) {
	off := pos % r.capacity
	h := *r.headerAt(pos) // copied once: another process may change it
	stride := h.strideBytes()
	switch {
	case stride < entryHeader || stride%entryAlign != 0:
		return h, r.corruptAtError(pos, "stride", stride, "not a multiple of 16, or zero")
	case stride > head-pos:
		return h, r.corruptAtError(pos, "stride", stride, "leads past what is published")
	case off+stride > r.capacity:
		return h, r.corruptAtError(pos, "stride", stride, "leads past the end of the buffer")
	case uint64(h.length) > stride-entryHeader:
		return h, r.corruptAtError(pos, "length", uint64(h.length), "more than the place holds")
	}
	return h, nil
}

// dataAt returns the data of the entry whose checked header is at pos.
func (r *ringBuffer) dataAt(pos uint64, length uint64) []byte {
	off := pos%r.capacity + entryHeader
	return r.data[off : off+length : off+length]
}

// checkSpan checks that [from, head) can be the published part of the buffer.
func (r *ringBuffer) checkSpan(from, head uint64) error {
	if from%entryAlign != 0 || head%entryAlign != 0 || head < from || head-from > r.capacity {
		return &corruptError{
			Segment: r.name,
			What:    "head",
			Value:   head,
			Reason:  fmt.Sprintf("it does not match position %d", from),
		}
	}
	return nil
}

func (r *ringBuffer) corruptAtError(pos uint64, what string, value uint64, reason string) error {
	return &corruptError{
		Segment: r.name,
		What:    fmt.Sprintf("%s of the entry at %d", what, pos),
		Value:   value,
		Reason:  reason,
	}
}
