package decision

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"ringlet/filter"
)

// ResultSize is the size of a result in bytes (L1-farm §7.6, table 7.3: 128 bits).
const ResultSize = 16

// maxEventNumber is the first event number that does not fit into a result: at 1 MHz it comes after nine years.
const maxEventNumber = 1 << 48

// noBuilder is the Builder of a decision that the decision unit made itself, after a time-out.
const noBuilder uint16 = 0xffff

// Void is the decision of a result whose event does not exist: its MEP ended before. The decision unit never passes it
// on.
const Void filter.Decision = 0xff

// A Result is a builder unit's verdict on an event. A decision for subscribers has the same form.
type Result struct {
	Event    uint64
	Builder  uint16 // index of the builder unit; of a decision also noBuilder
	Decision filter.Decision
	Epoch    uint8 // epoch of the decision unit that it is for
	Score    uint16
	// TookMicros is a time in µs, MaxTookMicros for any longer one. Of a result: from the last byte of the event to the
	// verdict. Of a decision: from when the decision unit knew that the event was triggered.
	TookMicros uint16
}

// MaxTookMicros stands, in TookMicros, for all times that are as long or longer.
const MaxTookMicros = 1<<16 - 1

// clampMicros returns a time as TookMicros.
func clampMicros(d time.Duration) uint16 { return uint16(min(max(d.Microseconds(), 0), MaxTookMicros)) }

// Errors of Parse.
var (
	errResultSize = errors.New("a result has 16 bytes")
	errSeal       = errors.New("its seal does not fit: the bytes are of two results, or of none")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns a 16-bit checksum of b[:14]. It does not protect against a process that may write: it detects results
// that were overwritten while they were read.
func seal(b []byte) uint16 {
	c := crc32.Checksum(b[:14], castagnoli)
	return uint16(c) ^ uint16(c>>16)
}

// Put writes the result to b[:ResultSize]. Its event must be below 2^48.
func (r *Result) Put(b []byte) {
	_ = b[ResultSize-1]
	binary.LittleEndian.PutUint64(b, r.Event&(maxEventNumber-1)|uint64(r.Builder)<<48)
	b[8], b[9] = byte(r.Decision), r.Epoch
	binary.LittleEndian.PutUint16(b[10:], r.Score)
	binary.LittleEndian.PutUint16(b[12:], r.TookMicros)
	binary.LittleEndian.PutUint16(b[14:], seal(b))
}

// Parse parses a result. The core judges whether its values are plausible.
func (r *Result) Parse(b []byte) error {
	if len(b) != ResultSize {
		return fmt.Errorf("%w, not %d", errResultSize, len(b))
	}
	if binary.LittleEndian.Uint16(b[14:]) != seal(b) {
		return errSeal
	}
	w := binary.LittleEndian.Uint64(b)
	r.Event, r.Builder = w&(maxEventNumber-1), uint16(w>>48)
	r.Decision, r.Epoch = filter.Decision(b[8]), b[9]
	r.Score, r.TookMicros = binary.LittleEndian.Uint16(b[10:]), binary.LittleEndian.Uint16(b[12:])
	return nil
}

func (r *Result) String() string {
	by := fmt.Sprintf("builder unit %d", r.Builder)
	if r.Builder == noBuilder {
		by = "the decision unit"
	}
	what := r.Decision.String()
	if r.Decision == Void {
		what = "no such event"
	}
	return fmt.Sprintf("event %d: %s by %s, score %d, %d µs", r.Event, what, by, r.Score, r.TookMicros)
}
