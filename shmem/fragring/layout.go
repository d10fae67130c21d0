package fragring

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"ringlet/shmem"
)

const (
	magic   = uint64(0x474E4952_4C474E52) // "RNGLRING" in memory
	version = 1

	// HeaderSize is where the records begin, bytes.
	HeaderSize = shmem.PageSize
	// MinCapacity is the smallest ring, in bytes of records: two of the largest fragments always find a place.
	MinCapacity = 256 << 10
	// maxCapacity is the largest: the size of a wrap record is a u32.
	maxCapacity = 4<<30 - shmem.PageSize
	// maxFragment is the largest fragment, bytes: event.MaxFragment.
	maxFragment = math.MaxUint16

	// ProducerByte is the byte of the memory whose lock a producer holds while it lives.
	ProducerByte = 0
	// ConsumerByte is the byte whose lock the consumer holds while it lives.
	ConsumerByte = 1

	// Revision is which words of the header this package knows: docs/format/ring.md. The version word stays 1, since
	// producers of revision 1 attach, too.
	Revision = 2

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

	flagWrap    = 1 // no fragment: the rest of the ring up to its end
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
	magic           uint64
	version         uint32
	source          uint32
	data            uint64
	capacity        uint64
	run             uint64
	maxFragmentSize uint32
	features        uint32
	_               [64 - 0x30]byte

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
	_                paddedName // a secret; kept for later
	_                [0xC0]byte
	givenUpTable     [givenUpTableSize]givenUpEntry
}

// paddedName is a text, padded with zeros.
type paddedName [MaxName / 8]atomic.Uint64

// givenUpTableSize is how many ranges a ring remembers.
const givenUpTableSize = 64

// givenUpEntry is a range of events whose fragments were given up.
type givenUpEntry struct {
	from, to, why atomic.Uint64 // why: the reason, and the number of fragments above 32 bits
	seq           atomic.Uint64 // number of the range, from 1; stored last
}

// record is the header of a record.
type record struct {
	event         uint64
	size          uint32
	kind          uint8
	flags         uint8
	reservedBytes uint16
}

// ring is a view of a ring's memory. What it reads may have been written by another process.
type ring struct {
	*words
	name string
	data []byte // the records
	size uint64 // len(data)
}

// Settings are what a ring says for good.
type Settings struct {
	Source uint16 // id of the source in the event's data
	Run    uint64
	PID    uint32 // of the consumer, for people
}

// Init writes the header of a new ring into zeroed memory of HeaderSize and at least MinCapacity bytes, whole pages.
func Init(mem []byte, s Settings) error {
	if len(mem) < HeaderSize+MinCapacity || len(mem) > HeaderSize+maxCapacity || len(mem)%shmem.PageSize != 0 {
		return fmt.Errorf("a ring has %d to %d bytes, in whole pages, and not %d", HeaderSize+MinCapacity,
			HeaderSize+maxCapacity, len(mem))
	}
	w := wordsOf(mem)
	w.magic, w.version, w.source = magic, version, uint32(s.Source)
	w.data, w.capacity = HeaderSize, uint64(len(mem)-HeaderSize)
	w.run, w.maxFragmentSize, w.features = s.Run, maxFragment, featureRevised
	w.consumerPID.Store(s.PID)
	w.consumerState.Store(uint32(consumerReading))
	return nil
}

func wordsOf(mem []byte) *words { return (*words)(unsafe.Pointer(unsafe.SliceData(mem[:HeaderSize]))) }

// openRing checks what never changes in a ring's header.
func openRing(name string, mem []byte) (ring, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 || math.MaxInt != math.MaxInt64 {
		return ring{}, errHostLayout
	}
	broken := func(what string, value uint64, reason string) error {
		return &BrokenError{
			Ring:   name,
			What:   what,
			Value:  value,
			Reason: reason,
		}
	}
	if len(mem) < HeaderSize+MinCapacity || len(mem) > HeaderSize+maxCapacity || len(mem)%shmem.PageSize != 0 {
		return ring{}, broken("size", uint64(len(mem)), "not that of a ring")
	}
	w := wordsOf(mem)
	for _, c := range []struct {
		what      string
		got, want uint64
		reason    string
	}{
		{"magic", w.magic, magic, "not a ring of fragments"},
		{"version", uint64(w.version), version, "another version of the layout"},
		{"data offset", w.data, HeaderSize, "not behind the header"},
		{"capacity", w.capacity, uint64(len(mem) - HeaderSize), "not what the segment holds"},
		{"source", uint64(w.source), uint64(uint16(w.source)), "more than 16 bits"},
		{"largest fragment", uint64(w.maxFragmentSize), maxFragment, "not that of this version"},
	} {
		if c.got != c.want {
			return ring{}, broken(c.what, c.got, c.reason)
		}
	}
	return ring{
		words: w,
		name:  name,
		data:  mem[HeaderSize:],
		size:  uint64(len(mem) - HeaderSize),
	}, nil
}

func (r *ring) recordAt(position uint64) *record {
	return (*record)(unsafe.Pointer(unsafe.SliceData(r.data[position%r.size:][:recordHeader])))
}

// recordStride is what a record of that size takes.
func recordStride(size uint64) uint64 { return recordHeader + (size+recordAlign-1)&^(recordAlign-1) }

// checkSpan checks that [taken, written) can be a part of the ring.
func (r *ring) checkSpan(what string, value, taken, written uint64) error {
	if taken%recordAlign == 0 && written%recordAlign == 0 && taken <= written && written-taken <= r.size {
		return nil
	}
	return &BrokenError{
		Ring:   r.name,
		What:   what,
		At:     taken,
		Value:  value,
		Reason: "it leads out of what the ring can hold",
	}
}
