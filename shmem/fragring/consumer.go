package fragring

import (
	"context"
	"fmt"
	"time"
)

// The way of a fragment out of the ring (sequential, one goroutine):
//
//  1. The position up to which the producer has written is loaded, and checked against what is known already.
//  2. The header of the record is read once and checked: nothing in it leads out of [position, written).
//  3. The data are handed out as a slice of the ring. The producer cannot overwrite them before
//  4. Done moves the taken position past them, and rings where the producer waits for room.
//
// No allocation: the ends of what is out stand in a slice that grows to the most that was ever out.

// Fragment is a record of a ring.
type Fragment struct {
	Event uint64
	Type  uint8
	Data  []byte // in the ring, until Done
}

// Consumer is the reading end of a ring. Its methods are for one goroutine.
type Consumer struct {
	ring
	position       uint64   // of the next record
	publishedTaken uint64   // what the producer was told
	written        uint64   // last loaded, and checked
	recordEnds     []uint64 // of the fragments out: where the record after each begins
	firstOut       int      // of ends that Done was not told of
	refusedRecords uint64
	refusedWhy     string // the record that was refused last
	wakeAt         uint64 // the wake word

	// the event of the last fragment; what is safe, and what of it the producer was told
	lastEvent, safeWanted, safePublished uint64
	// the lowest event at or above told whose fragment was given up; noEvent: none
	safeLimit                          uint64
	publishedPosition, publishedResume uint64 // as PublishResume stored it
}

// OpenConsumer opens the reading end of a ring that Init made. Errors are *BrokenError.
func OpenConsumer(name string, mem []byte) (*Consumer, error) {
	r, err := openRing(name, mem)
	if err != nil {
		return nil, err
	}
	return &Consumer{ring: r, safeLimit: noEvent, lastEvent: noEvent}, nil
}

// Next gives the next fragment, or false where there is none now. An error, *BrokenError, is for good: nothing behind
// it can be trusted. A record that holds no fragment of the format is passed over and counted in Refused.
func (c *Consumer) Next() (Fragment, bool, error) {
	for {
		if c.position == c.written {
			if err := c.loadWritten(); err != nil || c.position == c.written {
				return Fragment{}, false, err
			}
		}
		h := *c.recordAt(c.position) // read once: the shared memory may change behind it
		length, err := c.check(&h)
		if err != nil {
			return Fragment{}, false, err
		}
		from := c.position%c.size + recordHeader + extraBytes(h.flags)
		c.position += length
		wrong := h.defect()
		if wrong == "" {
			c.push()
			c.lastEvent = h.event
			to := from + uint64(h.size)
			return Fragment{h.event, h.kind, c.data[from:to:to]}, true, nil
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
	w := c.words.written.Load()
	if w == c.written && c.wakeAt != w+1 { // nothing: whoever writes the next record is to ring, once
		c.wakeAt = w + 1
		c.wakePosition.Store(c.wakeAt)
		w = c.words.written.Load()
	}
	if w < c.written {
		return c.brokenError("written position", w, "it has moved back")
	}
	if err := c.checkSpan("written position", w, c.publishedTaken, w); err != nil {
		return err
	}
	c.written = w
	return nil
}

// check says how long the record at the position is.
func (c *Consumer) check(h *record) (uint64, error) {
	at := c.position % c.size
	if h.flags&flagWrap != 0 {
		rest := c.size - at
		switch {
		case h.flags != flagWrap || h.event != 0 || h.kind != 0 || h.reservedBytes != 0 || at == 0:
			return 0, c.brokenError("wrap record's flags", uint64(h.flags), "a wrap record holds nothing else")
		case uint64(h.size) != rest-recordHeader || rest > c.written-c.position:
			return 0, c.brokenError("wrap record's size", uint64(h.size), "it does not lead to the end of the ring")
		}
		return rest, nil
	}
	length := recordStride(uint64(h.size) + extraBytes(h.flags))
	switch {
	case length > c.written-c.position:
		return 0, c.brokenError("size", uint64(h.size), "the record leads past what is written")
	case length > c.size-at:
		return 0, c.brokenError("size", uint64(h.size), "the record leads past the end of the ring")
	}
	return length, nil
}

// defect says why a record that has a good end holds no fragment; empty: it does.
func (h *record) defect() string {
	switch {
	case h.flags == flagWrap:
		return "a wrap record"
	case h.flags&^knownFlags != 0:
		return fmt.Sprintf("a record has unknown flags, %#x", h.flags)
	case h.reservedBytes != 0:
		return fmt.Sprintf("the reserved bytes of a record are %#x, and not 0", h.reservedBytes)
	case h.size > maxFragment:
		return fmt.Sprintf("a fragment has %d bytes, and %d are the most", h.size, maxFragment)
	case h.event == noEvent:
		return "a fragment has the event number 2^64-1, which is none"
	}
	return ""
}

func (c *Consumer) brokenError(what string, value uint64, reason string) error {
	return &BrokenError{
		Ring:   c.name,
		What:   what,
		At:     c.position,
		Value:  value,
		Reason: reason,
	}
}

// push notes that the fragment before the position is out.
func (c *Consumer) push() {
	if len(c.recordEnds) == cap(c.recordEnds) && c.firstOut > len(c.recordEnds)/2 {
		c.recordEnds, c.firstOut = c.recordEnds[:copy(c.recordEnds, c.recordEnds[c.firstOut:])], 0
	}
	c.recordEnds = append(c.recordEnds, c.position)
}

// skipRecord gives back a record that nobody gets: with the last fragment before it, where that is out.
func (c *Consumer) skipRecord() {
	if n := len(c.recordEnds); n > c.firstOut {
		c.recordEnds[n-1] = c.position
		return
	}
	c.release(c.position)
}

// Done gives back the room of the first n fragments that are out. There must be so many.
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

func (c *Consumer) release(to uint64) {
	c.publishedTaken = to
	c.words.taken.Store(to)
	c.spaceBell.Wake()
}

// SetSafe tells the producer that the fragments of all events below this number are safe, or ReportGivenUp has told of
// them. A producer that does not know of those is told no more than what is below the first of them. Call it again,
// with any number, when another producer has attached.
func (c *Consumer) SetSafe(event uint64) {
	c.safeWanted = max(c.safeWanted, event)
	to := c.safeWanted
	if !c.producerRevised() {
		to = min(to, c.safeLimit)
	}
	if to <= c.safePublished {
		return
	}
	c.safePublished = to
	c.safe.Store(to)
	if c.safeLimit < to {
		c.safeLimit = noEvent
	}
}

// SafeHeldAt is the event below which a producer of revision 1 is told safe, and true, if fragments that were given up
// keep it there.
func (c *Consumer) SafeHeldAt() (uint64, bool) {
	return c.safeLimit, c.safeLimit < c.safeWanted && !c.producerRevised()
}

// RefusedRecords is how many records held no fragment of the format.
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

// Wait sleeps until poll says true, as shmem.Bell.Await does with that nap; not longer than a millisecond at a time
// where the producer does not ring.
func (c *Consumer) Wait(ctx context.Context, nap time.Duration, poll func() (bool, error), alive func() error) error {
	if c.producerSilent.Load() != 0 && (nap <= 0 || nap > silentNap) {
		nap = silentNap
	}
	return c.recordsBell.Await(ctx, nap, poll, alive)
}

// Close tells the producer that nobody reads any more: broken says that it is the producer's fault.
func (c *Consumer) Close(broken bool) {
	s := consumerClosed
	if broken {
		s = consumerRefused
	}
	c.consumerState.Store(uint32(s))
	c.spaceBell.ForceWake()
}
