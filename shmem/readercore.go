package shmem

import (
	"fmt"
	"slices"
)

// readerCore finds the entries of a ring buffer for one reader. It has no I/O.
type readerCore struct {
	buffer *ringBuffer
	words  *readerWords
	index  int

	pos          uint64 // broadcast: the next header
	ordinal      uint32 // of the next entry (broadcast); of the last one (sharing)
	ordinalKnown bool   // ordinal is known
	afterPad     bool   // broadcast: the last header was a pad, which may have been a cancelled place
	outstanding  outstandingPlaces
	delivered    uint64
	acked        uint64

	lossyReader // of a reader that may lose
}

// maxJoinTries bounds how often a joining reader runs after the floor. The writer yields to a
// reader it has seen, so one round is the rule and two the exception.
const maxJoinTries = 1000

// join takes the reader's place i of the buffer. The caller holds the lock of the place, and
// its state is free.
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
	for range maxJoinTries { // see writerCore.refreshFloor for the other side
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
		Reason:  "it does not rest while a reader joins",
	}
}

// next returns the next entry, or false when there is none at the moment.
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

// readEntry reads and checks what is at the position. For a reader that may lose the data are a copy, which is whole
// unless the reader was overtaken meanwhile.
func (c *readerCore) readEntry(head uint64) (h header, data []byte, err error) {
	r := c.buffer
	if err := r.checkSpan(c.pos, head); err != nil {
		return h, nil, err
	}
	if h, err = r.header(c.pos, head); err != nil {
		return h, nil, err
	}
	data, err = r.entryBytes(c.pos, h)
	if err == nil && c.isLossy && !c.wasOvertaken() { // before much is copied
		c.entryCopy = append(slices.Grow(c.entryCopy[:0], len(data)), data...)
		data = c.entryCopy
	}
	return h, data, err
}

// inSequence tells whether a header has the number of the one that comes next.
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

// nextShared claims the next entry. Before next moves past an entry, the tail of who moves it
// stands at it or below, so the writer, which reads next first, never takes it for free.
func (c *readerCore) nextShared() (Entry, bool, error) {
	r := c.buffer
	for {
		at := r.claimedUpTo.Load()
		head := r.head.Load()
		err := r.checkSpan(at, head)
		if err != nil && r.claimedUpTo.Load() != at {
			continue // others have claimed it, and the writer has gone on, before head was loaded
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
			continue // another was faster; what was read may be stale
		}
		if err != nil {
			c.publishTail()
			return Entry{}, false, err
		}
		if c.claim(at, h) {
			c.ordinal, c.ordinalKnown = h.ordinal, true
			if h.kind == padType {
				c.ordinal-- // the entry behind it has the same
			}
			if h.kind != padType {
				return c.deliver(at, h, data), true, nil
			}
			c.publishTail()
		}
	}
}

// claim moves next past the entry. The entry is counted as given before that: a death in between
// counts one too many, never one too few.
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

// deliver hands the entry out.
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

// publishTail tells the writer what this reader still holds.
func (c *readerCore) publishTail() {
	if c.isLossy {
		return // nobody asks
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
