package ring

import (
	"context"
	"fmt"
	"time"

	"ringlet/shmem"
)

// The way of a record out of the ring (sequential, one goroutine):
//
//  1. The position up to which the producer has written is loaded, and checked against what is known already.
//  2. The header of the record is read once and checked: nothing in it leads out of [position, written).
//  3. The data are handed out as a slice of the ring. The producer cannot overwrite them before
//  4. Done moves the taken position past them, and rings where the producer waits for space.
//
// No allocation: the ends of what is out stand in a slice that grows to the most that was ever out.

// Record is what stands in a ring.
type Record struct {
	Number uint64 // of the event, in a ring of fragments
	Kind   uint8  // type of the bank, there
	Data   []byte // in the ring, until Done
}

// Consumer is the reading end of a ring. Its methods are for one goroutine.
type Consumer struct {
	ring
	position, offset uint64   // of the next record: since the ring was made, and in data
	publishedTaken   uint64   // what the producer was told
	seenWritten      uint64   // written, last loaded, and checked
	recordEnds       []uint64 // of the records out: where the record after each begins
	firstOut         int      // of ends that Done was not told of
	refusedRecords   uint64
	refusedWhy       string // the record that was refused last
	wakeWord         shmem.WakeWord
	poll, armedPoll  func() (bool, error)
	givenUpState
}

// OpenConsumer opens the reading end of a ring that Init made. Errors are *BrokenError.
func OpenConsumer(name string, mem []byte, use Use) (*Consumer, error) {
	r, err := openRing(name, mem, use)
	if err != nil {
		return nil, err
	}
	c := &Consumer{ring: r, wakeWord: shmem.WakeWordAt(&r.wakePosition), givenUpState: newGivenUpState()}
	c.armedPoll = c.pollArmed
	return c, nil
}

// pollArmed is poll, before which ArmWake was called where the position is now: records may have been passed over.
func (c *Consumer) pollArmed() (bool, error) {
	for {
		if ok, err := c.poll(); ok || err != nil || !c.ArmWake() {
			return ok, err
		}
	}
}

// HasRecord says whether there is something that Next has not given.
func (c *Consumer) HasRecord() bool { return c.written.Load() != c.position }

// ArmWake asks the producer to ring its bell at the next record, once: for whoever sleeps then. It says whether that is
// news.
func (c *Consumer) ArmWake() bool { return c.wakeWord.Arm(c.position + 1) }

// Next gives the next record, or false where there is none now. An error, *BrokenError, is for good: nothing behind
// it can be trusted. A record that is none of the format is passed over and counted in RefusedRecords.
func (c *Consumer) Next() (Record, bool, error) {
	for {
		if c.position == c.seenWritten {
			if err := c.loadWritten(); err != nil || c.position == c.seenWritten {
				return Record{}, false, err
			}
		}
		h := *c.recordAt(c.offset) // read once: the shared memory may change behind it
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
			return Record{h.number, h.kind, c.data[from:to:to]}, true, nil
		}
		if h.flags != flagWrap {
			c.refusedRecords++
			c.refusedWhy = wrong
		}
		c.skipRecord()
	}
}

// loadWritten loads how far the producer has written.
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

// check says how long the record at the position is.
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

// defect says why a record that has a good end is none of the format; empty: it is.
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

// push notes that the record before the position is out.
func (c *Consumer) push() {
	if len(c.recordEnds) == cap(c.recordEnds) && c.firstOut > len(c.recordEnds)/2 {
		c.recordEnds, c.firstOut = c.recordEnds[:copy(c.recordEnds, c.recordEnds[c.firstOut:])], 0
	}
	c.recordEnds = append(c.recordEnds, c.position)
}

// skipRecord gives back a record that nobody gets: with the last record before it, where that is out.
func (c *Consumer) skipRecord() {
	if n := len(c.recordEnds); n > c.firstOut {
		c.recordEnds[n-1] = c.position
		return
	}
	c.release(c.position)
}

// Done gives back the space of the first n records that are out. There must be so many.
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

// ReleaseAll gives back the space of all records that are out.
func (c *Consumer) ReleaseAll() { c.Done(len(c.recordEnds) - c.firstOut) }

func (c *Consumer) release(to uint64) {
	c.publishedTaken = to
	c.taken.Store(to)
	c.SpaceBell.Wake()
}

// RefusedRecords is how many records were none of the format.
func (c *Consumer) RefusedRecords() uint64 { return c.refusedRecords }

// WhyRefused says what was wrong with the last of those; empty where there is none.
func (c *Consumer) WhyRefused() string { return c.refusedWhy }

// Dropped is how many fragments the producers say they have dropped.
func (c *Consumer) Dropped() uint64 { return c.dropped.Load() }

// ProducerState says what the producer says of itself, and how often one attached. Load it before Next: what was
// written before the end of a run is then found before the end.
func (c *Consumer) ProducerState() (s State, attached uint64) {
	attached = c.attached.Load()
	return State(c.state.Load()), attached
}

// PID is the process that the producer says it is, for people.
func (c *Consumer) PID() uint32 { return c.pid.Load() }

// silentNap bounds what a producer that rings no bell adds to the time a fragment takes.
const silentNap = time.Millisecond

// Wait sleeps until poll says true, as shmem.Bell.Await does with that nap; where the producer does not ring not longer
// than a millisecond at a time.
func (c *Consumer) Wait(ctx context.Context, nap time.Duration, poll func() (bool, error), alive func() error) error {
	if c.producerSilent.Load() != 0 && (nap <= 0 || nap > silentNap) {
		nap = silentNap
	}
	c.poll = poll
	return c.recordsBell.Await(ctx, nap, c.armedPoll, alive)
}

// Close tells the producer that nobody reads any more: broken says that it is the producer's fault.
func (c *Consumer) Close(broken bool) {
	s := consumerClosed
	if broken {
		s = consumerRefused
	}
	c.consumerState.Store(uint32(s))
	c.SpaceBell.ForceWake()
}
