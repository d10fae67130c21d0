package shmem

import (
	"fmt"
	"slices"
)

// readerCore finds the entries of a buffer for one reader. It has no I/O.
type readerCore struct {
	buffer *ringBuffer
	words  *readerWords
	index  int

	pos          uint64 // broadcast: of the next header
	ordinal      uint32 // of the next entry (broadcast); of the last one (sharing)
	ordinalKnown bool   // ordinal is known
	afterPad     bool   // broadcast: the last header was a pad, which may have been a cancelled place
	outstanding  outstandingPlaces
	delivered    uint64
	acked        uint64

	lossyReader // state of a lossy reader
}

// maxJoinTries is how often a joining reader tries to catch the floor. The writer yields to a reader that it has seen,
// so one round is usual and two are rare.
const maxJoinTries = 1000

// join takes the reader's place i of the buffer. The place is free, and the caller holds its lock.
func (c *readerCore) join(i int, pid uint32) error {
	r := c.buffer
	c.index, c.words = i, &r.readers[i]
	c.words.pid.Store(pid)
	c.words.delivered.Store(0)
	c.words.acked.Store(0)
	c.words.overwritten.Store(0)
	if c.isLossy {
		return c.joinLossy()
	}
	if r.mode == Sharing {
		c.words.tail.Store(tailIdle)
		c.words.state.Store(readerActive)
		r.spaceBell.Wake()
		return nil
	}
	c.words.state.Store(readerJoining)
	for range maxJoinTries { // writerCore.refreshFloor is the other side
		c.pos = r.floor.Load()
		c.words.tail.Store(c.pos)
		if r.floor.Load() != c.pos {
			continue
		}
		if err := r.checkSpan(c.pos, r.head.Load()); err != nil {
			c.words.state.Store(readerFree)
			return err
		}
		c.words.state.Store(readerActive)
		r.spaceBell.Wake()
		return nil
	}
	c.words.state.Store(readerFree)
	return &corruptError{
		Segment: r.name,
		What:    "floor",
		Value:   c.pos,
		Reason:  "it keeps changing while a reader joins",
	}
}

// next returns the next entry, or false if there is none now.
func (c *readerCore) next() (Entry, bool, error) {
	if s := c.words.state.Load(); s != readerActive && (s != readerLossy || !c.isLossy) {
		return Entry{}, false, errDetached
	}
	if c.buffer.mode == Sharing {
		return c.nextShared()
	}
	for {
		if floor := c.buffer.floor.Load(); c.isLossy && floor > c.pos {
			c.pos, c.positionLost = floor, true
		}
		head := c.buffer.head.Load()
		if c.pos == head {
			return Entry{}, false, nil
		}
		h, data, err := c.readEntry(head)
		switch {
		case c.wasOvertaken():
			continue
		case err != nil:
			return Entry{}, false, err
		case c.ordinalKnown && c.positionLost && h.ordinal != c.ordinal:
			return Entry{}, false, c.countOverwritten(h.ordinal)
		case !c.inSequence(h):
			return Entry{}, false, c.outOfOrderError(c.pos, h)
		}
		at := c.pos
		c.positionLost = false
		if c.advance(h); h.kind != padType {
			return c.deliver(at, h, data), true, nil
		}
		c.publishTail()
	}
}

// readEntry reads and checks the entry at the position. For a lossy reader it returns a copy of the data, which is
// intact unless the writer has overtaken the reader meanwhile.
func (c *readerCore) readEntry(head uint64) (h header, data []byte, err error) {
	r := c.buffer
	if err := r.checkSpan(c.pos, head); err != nil {
		return h, nil, err
	}
	if h, err = r.header(c.pos, head); err != nil {
		return h, nil, err
	}
	data, err = r.entryBytes(c.pos, h)
	if err == nil && c.isLossy && !c.wasOvertaken() { // a large copy would be for nothing
		c.entryCopy = append(slices.Grow(c.entryCopy[:0], len(data)), data...)
		data = c.entryCopy
	}
	return h, data, err
}

// inSequence reports whether a header has the number of the next entry.
func (c *readerCore) inSequence(h header) bool {
	return !c.ordinalKnown || h.ordinal == c.ordinal || c.afterPad && h.ordinal == c.ordinal+1
}

// advance goes to the next header.
func (c *readerCore) advance(h header) {
	c.pos += h.strideBytes()
	c.ordinal, c.ordinalKnown, c.afterPad = h.ordinal, true, h.kind == padType
	if !c.afterPad {
		c.ordinal++
	}
}

// nextShared claims the next entry. Before a reader moves claimedUpTo past an entry, its tail is at the entry or below.
// So the writer, which loads claimedUpTo before the tails, never takes a claimed entry for free.
func (c *readerCore) nextShared() (Entry, bool, error) {
	r := c.buffer
	for {
		at := r.claimedUpTo.Load()
		head := r.head.Load()
		err := r.checkSpan(at, head)
		if err != nil && r.claimedUpTo.Load() != at {
			continue // before head was loaded, other readers claimed the entry and the writer went on
		}
		if err != nil || at == head {
			c.publishTail()
			return Entry{}, false, err
		}
		if c.outstanding.isEmpty() {
			c.words.tail.Store(at)
		}
		h, err := r.header(at, head)
		if err == nil && c.ordinalKnown && int32(h.ordinal-c.ordinal) <= 0 {
			err = c.outOfOrderError(at, h)
		}
		var data []byte
		if err == nil {
			data, err = r.entryBytes(at, h)
		}
		if r.claimedUpTo.Load() != at {
			continue // another reader was faster; this reader may have read stale bytes
		}
		if err != nil {
			c.publishTail()
			return Entry{}, false, err
		}
		if c.claim(at, h) {
			c.ordinal, c.ordinalKnown = h.ordinal, true
			if h.kind == padType {
				c.ordinal-- // the entry behind a pad has the same number
			}
			if h.kind != padType {
				return c.deliver(at, h, data), true, nil
			}
			c.publishTail()
		}
	}
}

// claim moves claimedUpTo past the entry. It counts the entry as delivered before that: if the reader dies in between,
// the count is one too high, never too low.
func (c *readerCore) claim(at uint64, h header) bool {
	if h.kind == padType {
		return c.buffer.claimedUpTo.CompareAndSwap(at, at+h.strideBytes())
	}
	c.words.delivered.Store(c.delivered + 1)
	if c.buffer.claimedUpTo.CompareAndSwap(at, at+h.strideBytes()) {
		return true
	}
	c.words.delivered.Store(c.delivered)
	return false
}

func (c *readerCore) outOfOrderError(at uint64, h header) error {
	return c.buffer.corruptAtError(at, "ordinal", uint64(h.ordinal), fmt.Sprintf("out of order at %d", c.ordinal))
}

// deliver returns the entry.
func (c *readerCore) deliver(at uint64, h header, data []byte) Entry {
	c.delivered++
	c.words.delivered.Store(c.delivered)
	return Entry{
		Type:   h.kind,
		Data:   data,
		pos:    at,
		ticket: c.outstanding.push(at),
	}
}

// ack takes an entry back.
func (c *readerCore) ack(e Entry) error {
	if !c.outstanding.contains(e.ticket, e.pos) {
		return errNotOutstanding
	}
	c.outstanding.finish(e.ticket)
	c.acked++
	c.words.acked.Store(c.acked)
	c.publishTail()
	return nil
}

// publishTail tells the writer up to where this reader is done.
func (c *readerCore) publishTail() {
	if c.isLossy {
		return // the writer does not wait for it
	}
	idle := c.pos
	if c.buffer.mode == Sharing {
		idle = tailIdle
	}
	if tail := c.outstanding.front(idle); c.words.tail.Load() != tail {
		c.words.tail.Store(tail)
		c.buffer.spaceBell.Wake()
	}
}
