package ring

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"

	"ringlet/shmem"
)

// Use is what a ring is for, stored as the version in its header; the layout is the same. Version 1 remains the one of
// fragments, since front-ends of all releases attach to it.
type Use uint32

const (
	// Fragments means: of a front-end, or a filter process's answers.
	Fragments Use = 1
	// Messages means: of any other producer.
	Messages Use = 2
)

const (
	magic = uint64(0x474E4952_4C474E52) // "RNGLRING" in memory

	// HeaderSize is the offset of the records, bytes.
	HeaderSize = shmem.PageSize
	// MinCapacity is the smallest ring of fragments, bytes of records.
	MinCapacity = 256 << 10
	// MaxCapacity is the largest ring, bytes of records: a wrap record's size is a u32.
	MaxCapacity = 4<<30 - shmem.PageSize
	// minLargest is the least that a ring of fragments has as its largest, bytes: event.MaxNarrowFragment. Front-ends of
	// releases before fragments were larger attach to no other ring.
	minLargest = math.MaxUint16
	// maxLargest is the largest fragment that a ring can have, bytes: event.MaxFragment.
	maxLargest = 1 << 30

	// ProducerByte is the byte of the memory that a producer of fragments locks as long as it lives.
	ProducerByte = 0
	// ConsumerByte is the byte of the memory that the consumer of fragments locks as long as it lives.
	ConsumerByte = 1

	// revision is the revision of the header's words that this package knows: docs/format/ring.md.
	revision = 2

	// MaxName is the longest name of a front-end in a ring, bytes.
	MaxName = 64

	featureRevised = 1 // the consumer uses the words of revision 2
	featureLife    = 2 // the consumer tells the life of the run

	// DefaultType is the bank type of fragments whose front-end names no type: TestDet.
	DefaultType = 51
)

// State is the state of one side, as it has stored it.
type State uint32

// States of a producer; Detached means that it left without the end of its run.
const (
	Absent   State = 0
	Attached State = 1
	Ended    State = 2
	Detached State = 3
)

// States of the consumer.
const (
	consumerReading State = 1
	consumerClosed  State = 2
	consumerRefused State = 3
)

// A record is a header of 16 bytes and its data, padded to a multiple of 16.
const (
	recordHeader = 16
	recordAlign  = 16

	flagWrap    = 1 // no record: it fills the ring up to its end
	flagTrigger = 2 // a trigger number, 8 bytes, stands before the data
	flagTime    = 4 // a time stamp, 8 bytes, stands before the data, behind a trigger number
	knownFlags  = flagTrigger | flagTime
	noEvent     = math.MaxUint64
)

type lineRest [64 - 8]byte

// mark holds the number of the event after the record that ends at position.
type mark struct{ position, nextEvent atomic.Uint64 }

// words is the header of a ring, as docs/format/ring.md lists it.
type words struct {
	magic         uint64
	use           Use
	source        uint32
	data          uint64
	capacity      uint64
	run           uint64
	largestRecord uint32
	features      uint32
	_             [64 - 0x30]byte

	// the producer's
	state          atomic.Uint32
	pid            atomic.Uint32
	attached       atomic.Uint64 // how often a producer has attached
	producerSilent atomic.Uint32 // the producer does not ring the bell
	revision       atomic.Uint32 // of the producer that identityOf names
	identityOf     atomic.Uint64 // value of attached for the producer that stored revision and name
	_              [64 - 32]byte
	written        atomic.Uint64
	dropped        atomic.Uint64
	marks          [2]mark
	_              [64 - 6*8]byte

	// the consumer's
	taken          atomic.Uint64
	safe           atomic.Uint64
	wakePosition   atomic.Uint64 // ring when written reaches this
	resumePosition atomic.Uint64 // the consumer has judged the records below; only for this position resumeEvent is valid
	resumeEvent    atomic.Uint64 // the event from which to send, plus one; 0: use the mark
	_              [64 - 5*8]byte
	consumerState  atomic.Uint32
	consumerPID    atomic.Uint32
	endTaken       atomic.Uint64 // the consumer has taken the end of the run
	_              [64 - 16]byte

	recordsBell shmem.Bell // rung when written or the producer's state changes
	_           lineRest
	spaceBell   shmem.Bell // rung when taken, endTaken or the consumer's state changes
	_           lineRest
	_           [64]byte

	givenUpRanges    atomic.Uint64 // ranges reported since the ring was made
	givenUpFragments atomic.Uint64 // fragments in these ranges
	_                [64 - 16]byte
	producerName     paddedName    // name of the front-end
	sourceName       paddedName    // the consumer's: how the run calls the source
	command          atomic.Uint64 // the consumer's: what the front-end is told last, with its ticket
	_                lineRest
	nonce            Nonce
	follows          atomic.Uint64 // value of attached for the last producer that follows the run
	reply            atomic.Uint64 // of the producer to a command, with its ticket
	why              [MaxWhy / 8]atomic.Uint64
	_                [0x20]byte
	givenUpTable     [givenUpTableSize]givenUpEntry
}

// paddedName is a text, padded with zeros.
type paddedName [MaxName / 8]atomic.Uint64

// Nonce is a random number by which a process that was told of a ring tells it from another one of the same name.
type Nonce [16]byte

// givenUpTableSize is how many ranges the ring holds; later ones overwrite them.
const givenUpTableSize = 64

// givenUpEntry is a range of events whose fragments were given up.
type givenUpEntry struct {
	from, to, why atomic.Uint64 // why: the reason, and the number of fragments in the upper 32 bits
	seq           atomic.Uint64 // number of the range, from 1; stored last
}

// recordWords is the header of a record.
type recordWords struct {
	number        uint64
	size          uint32
	kind          uint8
	flags         uint8
	reservedBytes uint16
}

// bell is a bell of a ring: a shmem.Bell, or another one for goroutines of one process.
type bell interface {
	HasWaiters() bool
	Wake()
	ForceWake()
	AddWaiter() (seq uint32)
	Sleep(seq uint32, timeout time.Duration)
	RemoveWaiter()
}

// ring is a view of a ring's memory, in which another process writes, too.
type ring struct {
	*words
	name    string
	data    []byte // the records
	size    uint64 // len(data)
	largest int    // most bytes of data in a record
	marked  bool   // the ring is of fragments, and has marks
	// The producer rings RecordsBell for the consumer, and the consumer SpaceBell for the producer. They are the header's
	// unless the owner has replaced them.
	RecordsBell, SpaceBell bell
}

// Settings are the fixed values in a ring's header.
type Settings struct {
	Use           Use
	LargestRecord int    // most bytes of data; for fragments minLargest or more, 0 means that
	Source        uint16 // for fragments: the source's id in the event's data
	Run           uint64
	HasLife       bool   // for fragments: the consumer tells the life of the run
	SourceName    string // for fragments: how the run calls the source, at most MaxName bytes
	PID           uint32 // of the consumer, for messages
	Nonce         Nonce
}

// Init writes the header of a new ring into zeroed memory: HeaderSize bytes and then whole pages, for fragments at
// least MinCapacity, otherwise space for three of the largest messages.
func Init(mem []byte, s Settings) error {
	if s.Use == Fragments {
		s.LargestRecord = max(s.LargestRecord, minLargest)
	}
	if !fits(len(mem), s.Use, s.LargestRecord) {
		return fmt.Errorf("a ring needs %d to %d bytes in whole pages, with space for three records of %d bytes; it has %d",
			HeaderSize+MinCapacity, HeaderSize+MaxCapacity, s.LargestRecord, len(mem))
	}
	w := wordsOf(mem)
	w.magic, w.use, w.source = magic, s.Use, uint32(s.Source)
	w.data, w.capacity = HeaderSize, uint64(len(mem)-HeaderSize)
	w.run, w.largestRecord, w.features = s.Run, uint32(s.LargestRecord), featureRevised
	if s.HasLife {
		w.features |= featureLife
	}
	w.sourceName.set(s.SourceName)
	w.nonce = s.Nonce
	w.consumerPID.Store(s.PID)
	w.consumerState.Store(uint32(consumerReading))
	return nil
}

// fits reports whether memory of this size can be a ring, in which two of the largest records always fit.
func fits(size int, use Use, largest int) bool {
	capacity := size - HeaderSize
	return size%shmem.PageSize == 0 && capacity <= MaxCapacity && largest >= 0 && largest <= maxLargest &&
		capacity >= 3*int(Stride(largest)) && (capacity >= MinCapacity || use != Fragments)
}

func wordsOf(mem []byte) *words { return (*words)(unsafe.Pointer(unsafe.SliceData(mem[:HeaderSize]))) }

// openRing checks the fixed values in a ring's header.
func openRing(name string, mem []byte, use Use) (ring, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 || math.MaxInt != math.MaxInt64 {
		return ring{}, errHostLayout
	}
	r := ring{name: name}
	if len(mem) <= HeaderSize {
		return ring{}, r.brokenError("size", 0, uint64(len(mem)), "not that of a ring")
	}
	r.words, r.data, r.size = wordsOf(mem), mem[HeaderSize:], uint64(len(mem)-HeaderSize)
	r.RecordsBell, r.SpaceBell = &r.recordsBell, &r.spaceBell
	largest := r.largestRecord // loaded once: another process may change it
	for _, c := range []struct {
		what      string
		got, want uint64
		reason    string
	}{
		{"magic", r.magic, magic, "not a ring of records"},
		{"version", uint64(r.use), uint64(use), "another version of the layout"},
		{"data offset", r.words.data, HeaderSize, "not behind the header"},
		{"capacity", r.capacity, r.size, "not what the segment holds"},
		{"source", uint64(r.source), uint64(uint16(r.source)), "more than 16 bits"},
	} {
		if c.got != c.want {
			return ring{}, r.brokenError(c.what, 0, c.got, c.reason)
		}
	}
	if use == Fragments && largest < minLargest {
		return ring{}, r.brokenError("largest record", 0, uint64(largest), "not that of this version")
	}
	if !fits(len(mem), use, int(largest)) {
		return ring{}, r.brokenError("size", 0, uint64(len(mem)), "not that of a ring")
	}
	r.largest, r.marked = int(largest), use == Fragments
	return r, nil
}

func (r *ring) brokenError(what string, at, value uint64, reason string) error {
	return &BrokenError{
		Ring:   r.name,
		What:   what,
		At:     at,
		Value:  value,
		Reason: reason,
	}
}

func (r *ring) recordAt(offset uint64) *recordWords {
	return (*recordWords)(unsafe.Pointer(unsafe.SliceData(r.data[offset:][:recordHeader])))
}

// Stride is the length of a record with size bytes of data, bytes.
func Stride(size int) uint64 { return stride(uint64(size)) }

func stride(size uint64) uint64 { return recordHeader + (size+recordAlign-1)&^(recordAlign-1) }

// Words are what else a record may have: a trigger number and a time stamp, ns since 1970, UTC.
type Words struct {
	HasTrigger, HasStamp bool
	Trigger, Stamp       uint64
}

// flags announce the words in the header of a record.
func (w *Words) flags() (flags uint8) {
	if w.HasTrigger {
		flags |= flagTrigger
	}
	if w.HasStamp {
		flags |= flagTime
	}
	return flags
}

// put writes the words to b, which they fill.
func (w *Words) put(b []byte) {
	if w.HasTrigger {
		binary.LittleEndian.PutUint64(b, w.Trigger)
		b = b[8:]
	}
	if w.HasStamp {
		binary.LittleEndian.PutUint64(b, w.Stamp)
	}
}

// wordsIn are the words that flags announce in b, which they fill.
func wordsIn(flags uint8, b []byte) (w Words) {
	if w.HasTrigger = flags&flagTrigger != 0; w.HasTrigger {
		w.Trigger = binary.LittleEndian.Uint64(b)
		b = b[8:]
	}
	if w.HasStamp = flags&flagTime != 0; w.HasStamp {
		w.Stamp = binary.LittleEndian.Uint64(b)
	}
	return w
}

// extraBytes is the number of bytes between a record's header and its data.
func extraBytes(flags uint8) uint64 { return 8 * uint64(bits.OnesCount8(flags&knownFlags)) }

// IsEmpty reports whether the consumer has released the space of all records written.
func (r *ring) IsEmpty() bool { return r.taken.Load() == r.written.Load() }

// checkSpan checks that [taken, written) can be a part of the ring.
func (r *ring) checkSpan(what string, value, taken, written uint64) error {
	if taken%recordAlign == 0 && written%recordAlign == 0 && taken <= written && written-taken <= r.size {
		return nil
	}
	return r.brokenError(what, taken, value, "it leads out of what the ring can hold")
}
