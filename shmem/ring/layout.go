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

// Use is what a ring is for, and the version in its header. The layout is one. Version 1 stays that of fragments, since
// front-ends of all releases attach to it.
type Use uint32

const (
	// Fragments are of a front-end, or answers of a filter's process.
	Fragments Use = 1
	// Messages are of any other producer.
	Messages Use = 2
)

const (
	magic = uint64(0x474E4952_4C474E52) // "RNGLRING" in memory

	// HeaderSize is where the records begin, bytes.
	HeaderSize = shmem.PageSize
	// MinCapacity is the smallest ring of fragments, in bytes of records.
	MinCapacity = 256 << 10
	// maxCapacity is the largest ring: the size of a wrap record is a u32.
	maxCapacity = 4<<30 - shmem.PageSize
	// maxFragment is the largest fragment, bytes: event.MaxFragment.
	maxFragment = math.MaxUint16

	// ProducerByte is the byte of the memory whose lock a producer of fragments holds while it lives.
	ProducerByte = 0
	// ConsumerByte is the byte whose lock their consumer holds while it lives.
	ConsumerByte = 1

	// revision is which words of the header this package knows: docs/format/ring.md.
	revision = 2

	// MaxName is the most bytes that the name of a front-end has in a ring.
	MaxName = 64

	featureRevised = 1 // of the ring: its consumer keeps the words of revision 2

	// DefaultType is the type of fragments whose front-end names none: TestDet.
	DefaultType = 51
)

// State is what one side says of itself.
type State uint32

// States of a producer; Detached is one that went away without the end of its run.
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

	flagWrap    = 1 // no record: the rest of the ring up to its end
	flagTrigger = 2 // a trigger number, 8 bytes, stands before the data
	flagTime    = 4 // a time stamp, 8 bytes, stands before the data, behind the trigger number
	knownFlags  = flagTrigger | flagTime
	noEvent     = math.MaxUint64
)

type lineRest [64 - 8]byte

// mark says which event comes next after the record that ends at position.
type mark struct{ position, nextEvent atomic.Uint64 }

// words is the header of a ring, as docs/format/ring.md draws it.
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
	attached       atomic.Uint64 // times that a producer attached
	producerSilent atomic.Uint32 // it does not ring the bell
	revision       atomic.Uint32 // that it knows, if it is the one in by
	identityOf     atomic.Uint64 // which of the attached stored revision and name
	_              [64 - 32]byte
	written        atomic.Uint64
	dropped        atomic.Uint64
	marks          [2]mark
	_              [64 - 6*8]byte

	// the consumer's
	taken          atomic.Uint64
	safe           atomic.Uint64
	wakePosition   atomic.Uint64 // ring when written comes to this
	resumePosition atomic.Uint64 // the records below have been judged, and again holds for whoever comes now
	resumeEvent    atomic.Uint64 // one above the event from which to send; 0: the mark says it
	_              [64 - 5*8]byte
	consumerState  atomic.Uint32
	consumerPID    atomic.Uint32
	endTaken       atomic.Uint64 // the consumer has taken the end of the run
	_              [64 - 16]byte

	recordsBell shmem.Bell // rung when written or the producer's state changes
	_           lineRest
	spaceBell   shmem.Bell // rung when taken, end or the consumer's state changes
	_           lineRest
	_           [64]byte

	givenUpRanges    atomic.Uint64 // that were ever told
	givenUpFragments atomic.Uint64 // fragments in them
	_                [64 - 16]byte
	producerName     paddedName // the producer's name
	_                paddedName // the name of the source; kept for later
	_                paddedName // the state of the run; kept for later
	nonce            Nonce
	_                [MaxName - len(Nonce{})]byte
	_                [0xC0]byte
	givenUpTable     [givenUpTableSize]givenUpEntry
}

// paddedName is a text, padded with zeros.
type paddedName [MaxName / 8]atomic.Uint64

// Nonce is a random number by which whoever was told of a ring knows it from another one of its name.
type Nonce [16]byte

// givenUpTableSize is how many ranges a ring remembers.
const givenUpTableSize = 64

// givenUpEntry is a range of events whose fragments were given up.
type givenUpEntry struct {
	from, to, why atomic.Uint64 // why: the reason, and the number of fragments above 32 bits
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

// bell is what the two bells of a ring do: a shmem.Bell, or another one in the memory of one process.
type bell interface {
	HasWaiters() bool
	Wake()
	ForceWake()
	AddWaiter() (seq uint32)
	Sleep(seq uint32, timeout time.Duration)
	RemoveWaiter()
}

// ring is a view of a ring's memory. What it reads may have been written by another process.
type ring struct {
	*words
	name    string
	data    []byte // the records
	size    uint64 // len(data)
	largest int    // bytes of data that a record may have
	marked  bool   // it is of fragments
	// RecordsBell is rung for the consumer, SpaceBell for the producer: those of the header, where nobody put others here.
	RecordsBell, SpaceBell bell
}

// Settings are what a ring says for good.
type Settings struct {
	Use           Use
	LargestRecord int    // bytes of data, of messages
	Source        uint16 // of fragments: id of the source in the event's data
	Run           uint64
	PID           uint32 // of the consumer, for people
	Nonce         Nonce
}

// Init writes the header of a new ring into zeroed memory: HeaderSize, and behind it whole pages, of fragments
// MinCapacity or more, else space for three of the largest messages.
func Init(mem []byte, s Settings) error {
	if s.Use == Fragments {
		s.LargestRecord = maxFragment
	}
	if !fits(len(mem), s.Use, s.LargestRecord) {
		return fmt.Errorf("a ring has %d to %d bytes, in whole pages, and space for three records of %d bytes, and not %d",
			HeaderSize+MinCapacity, HeaderSize+maxCapacity, s.LargestRecord, len(mem))
	}
	w := wordsOf(mem)
	w.magic, w.use, w.source = magic, s.Use, uint32(s.Source)
	w.data, w.capacity = HeaderSize, uint64(len(mem)-HeaderSize)
	w.run, w.largestRecord, w.features = s.Run, uint32(s.LargestRecord), featureRevised
	w.nonce = s.Nonce
	w.consumerPID.Store(s.PID)
	w.consumerState.Store(uint32(consumerReading))
	return nil
}

// fits says whether memory of that size can be a ring: two of the largest records always find a place.
func fits(size int, use Use, largest int) bool {
	capacity := size - HeaderSize
	return size%shmem.PageSize == 0 && capacity <= maxCapacity && largest >= 0 && largest <= maxFragment &&
		capacity >= 3*int(Stride(largest)) && (capacity >= MinCapacity || use != Fragments)
}

func wordsOf(mem []byte) *words { return (*words)(unsafe.Pointer(unsafe.SliceData(mem[:HeaderSize]))) }

// openRing checks what never changes in a ring's header.
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
	largest := r.largestRecord // read once
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
	if use == Fragments && largest != maxFragment {
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

// Stride is what a record with so many bytes of data takes, bytes.
func Stride(size int) uint64 { return stride(uint64(size)) }

func stride(size uint64) uint64 { return recordHeader + (size+recordAlign-1)&^(recordAlign-1) }

// extraBytes is how many bytes stand between the header of a record and its data.
func extraBytes(flags uint8) uint64 { return 8 * uint64(bits.OnesCount8(flags&knownFlags)) }

// IsEmpty says whether the consumer has given back the space of all that was written.
func (r *ring) IsEmpty() bool { return r.taken.Load() == r.written.Load() }

// checkSpan checks that [taken, written) can be a part of the ring.
func (r *ring) checkSpan(what string, value, taken, written uint64) error {
	if taken%recordAlign == 0 && written%recordAlign == 0 && taken <= written && written-taken <= r.size {
		return nil
	}
	return r.brokenError(what, taken, value, "it leads out of what the ring can hold")
}
