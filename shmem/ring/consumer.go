package ring

import (
	"context"
	"fmt"
	"time"

	"ringlet/shmem"
)

// The way of a record out of the ring (sequential, one goroutine):
//
//  1. Next loads the position up to which the producer has written, and checks it against the last one.
//  2. It copies the record's header and checks it: the record must lie within [position, written).
//  3. It returns the data as a slice of the ring. The producer cannot overwrite them before
//  4. Done moves the taken position past them, and rings if the producer waits for space.
//
// Nothing allocates: a slice holds the ends of the records handed out, and grows to the most at a time.

// Record is a record in a ring.
type Record struct {
	Number uint64 // the event, in a ring of fragments
	Kind   uint8  // type of the bank, in a ring of fragments
	Data   []byte // in the ring, valid until Done
	Words
}

// Consumer is the reading end of a ring. Its methods are for one goroutine.
type Consumer struct {
	ring
	position, offset uint64   // of the next record: bytes since the ring was made, and in data
	publishedTaken   uint64   // the taken position in the ring's header
	seenWritten      uint64   // the written position, last loaded and checked
	recordEnds       []uint64 // of records handed out: the position behind each
	firstOut         int      // index in recordEnds of the first record that Done has not released
	refusedRecords   uint64
	refusedWhy       string // why the last refused record was refused
	wakeWord         shmem.WakeWord
	poll, armedPoll  func() (bool, error)
	givenUpState
}

// OpenConsumer opens the reading end of a ring made by Init. Errors are *BrokenError.
func OpenConsumer(name string, mem []byte, use Use) (*Consumer, error) {
	r, err := openRing(name, mem, use)
	if err != nil {
		return nil, err
	}
	c := &Consumer{ring: r, wakeWord: shmem.WakeWordAt(&r.wakePosition), givenUpState: newGivenUpState()}
	c.armedPoll = c.pollArmed
	return c, nil
}

// pollArmed is poll after ArmWake at the present position; poll may skip records, so it arms again until the position
// rests.
func (c *Consumer) pollArmed() (bool, error) {
	for {
		if ok, err := c.poll(); ok || err != nil || !c.ArmWake() {
			return ok, err
		}
	}
}

// HasRecord reports whether there is a record that Next has not returned.
func (c *Consumer) HasRecord() bool { return c.written.Load() != c.position }

// ArmWake asks the producer to ring once, at the next record; call it before sleeping. It reports whether the request
// is new.
func (c *Consumer) ArmWake() bool { return c.wakeWord.Arm(c.position + 1) }

// Next returns the next record, or false if there is none now. After an error, *BrokenError, the ring is unusable: Next
// cannot tell where the next record begins. It skips a record of wrong format and counts it in RefusedRecords.
func (c *Consumer) Next() (Record, bool, error) {
	for {
		if c.position == c.seenWritten {
			if err := c.loadWritten(); err != nil || c.position == c.seenWritten {
				return Record{}, false, err
			}
		}
		h := *c.recordAt(c.offset) // copied once: the producer may change it
		length, err := c.check(&h)
		if err != nil {
			return Record{}, false, err
		}
		from := c.offset + recordHeader + extraBytes(h.flags)
		c.position += length
		if c.offset += length; c.offset == c.size {
			c.offset = 0
		}
		wrong := c.defect(&h)
		if wrong == "" {
			c.push()
			c.lastEvent = h.number
			to := from + uint64(h.size)
			r := Record{Number: h.number, Kind: h.kind, Data: c.data[from:to:to]}
			if h.flags != 0 {
				r.Words = wordsIn(h.flags, c.data[from-extraBytes(h.flags):from])
			}
			return r, true, nil
		}
		if h.flags != flagWrap {
			c.refusedRecords++
			c.refusedWhy = wrong
		}
		c.skipRecord()
	}
}

// loadWritten loads and checks the written position.
func (c *Consumer) loadWritten() error {
	w := c.written.Load()
	switch {
	case w == c.seenWritten:
		return nil
	case w < c.seenWritten:
		return c.brokenError("written position", c.position, w, "it has moved back")
	}
	if err := c.checkSpan("written position", w, c.publishedTaken, w); err != nil {
		return err
	}
	c.seenWritten = w
	return nil
}

// check returns the length of the record at the position.
func (c *Consumer) check(h *recordWords) (uint64, error) {
	rest, written := c.size-c.offset, c.seenWritten-c.position
	if h.flags&flagWrap != 0 {
		switch {
		case h.flags != flagWrap || h.number != 0 || h.kind != 0 || h.reservedBytes != 0 || c.offset == 0:
			return 0, c.brokenError("wrap record's flags", c.position, uint64(h.flags), "a wrap record holds nothing else")
		case uint64(h.size) != rest-recordHeader || rest > written:
			return 0, c.brokenError("wrap record's size", c.position, uint64(h.size), "it does not lead to the end of the ring")
		}
		return rest, nil
	}
	length := stride(uint64(h.size) + extraBytes(h.flags))
	switch {
	case length > written:
		return 0, c.brokenError("size", c.position, uint64(h.size), "the record leads past what is written")
	case length > rest:
		return 0, c.brokenError("size", c.position, uint64(h.size), "the record leads past the end of the ring")
	}
	return length, nil
}

// defect returns why a record whose length is valid has a wrong format; "" if it has not.
func (c *Consumer) defect(h *recordWords) string {
	switch {
	case h.flags == flagWrap:
		return "a wrap record"
	case h.flags&^knownFlags != 0:
		return fmt.Sprintf("a record has unknown flags, %#x", h.flags)
	case h.reservedBytes != 0:
		return fmt.Sprintf("the reserved bytes of a record are %#x, and not 0", h.reservedBytes)
	case int64(h.size) > int64(c.largest):
		return fmt.Sprintf("a fragment has %d bytes, and %d are the most", h.size, c.largest)
	case h.number == noEvent && c.marked:
		return "a fragment has the event number 2^64-1, which is none"
	}
	return ""
}

// push notes that the record before the position is handed out.
func (c *Consumer) push() {
	if len(c.recordEnds) == cap(c.recordEnds) && c.firstOut > len(c.recordEnds)/2 {
		c.recordEnds, c.firstOut = c.recordEnds[:copy(c.recordEnds, c.recordEnds[c.firstOut:])], 0
	}
	c.recordEnds = append(c.recordEnds, c.position)
}

// skipRecord releases a record that is not handed out: with the record before it, if that one is handed out.
func (c *Consumer) skipRecord() {
	if n := len(c.recordEnds); n > c.firstOut {
		c.recordEnds[n-1] = c.position
		return
	}
	c.release(c.position)
}

// Done releases the space of the first n records handed out. There must be n.
func (c *Consumer) Done(n int) {
	if n <= 0 {
		return
	}
	to := c.recordEnds[c.firstOut+n-1]
	if c.firstOut += n; c.firstOut == len(c.recordEnds) {
		c.recordEnds, c.firstOut = c.recordEnds[:0], 0
	}
	c.release(to)
}

// ReleaseAll releases the space of all records handed out.
func (c *Consumer) ReleaseAll() { c.Done(len(c.recordEnds) - c.firstOut) }

func (c *Consumer) release(to uint64) {
	c.publishedTaken = to
	c.taken.Store(to)
	c.SpaceBell.Wake()
}

// RefusedRecords is how many records had a wrong format.
func (c *Consumer) RefusedRecords() uint64 { return c.refusedRecords }

// WhyRefused is what was wrong with the last refused record; empty if there was none.
func (c *Consumer) WhyRefused() string { return c.refusedWhy }

// Dropped is how many fragments the producers have reported as dropped.
func (c *Consumer) Dropped() uint64 { return c.dropped.Load() }

// ProducerState returns the producer's state, and how often a producer has attached. Load it before Next: then Next
// finds all records that were written before the end of a run.
func (c *Consumer) ProducerState() (s State, attached uint64) {
	attached = c.attached.Load()
	return State(c.state.Load()), attached
}

// PID is the process number that the producer has given, for messages.
func (c *Consumer) PID() uint32 { return c.pid.Load() }

// silentNap is the longest delay of a fragment if the producer does not ring.
const silentNap = time.Millisecond

// Wait sleeps until poll returns true, as shmem.Bell.Await does with that nap; with a producer that does not ring, at
// most a millisecond at a time.
func (c *Consumer) Wait(ctx context.Context, nap time.Duration, poll func() (bool, error), alive func() error) error {
	if c.producerSilent.Load() != 0 && (nap <= 0 || nap > silentNap) {
		nap = silentNap
	}
	c.poll = poll
	return c.recordsBell.Await(ctx, nap, c.armedPoll, alive)
}

// Close tells the producer that the consumer reads no more; broken: because the producer broke the format.
func (c *Consumer) Close(broken bool) {
	s := consumerClosed
	if broken {
		s = consumerRefused
	}
	c.consumerState.Store(uint32(s))
	c.SpaceBell.ForceWake()
}
