package shmem

import (
	"fmt"
	"sync/atomic"
)

// The writer does not wait for a lossy reader: it overwrites entries that the reader has not read when it needs the
// space. So the reader copies entries, in this order:
//
//	1 look   at the floor: if it is above the reader's position, the entry was overwritten; go on at the floor
//	2 copy   header and data, which the writer may be overwriting meanwhile
//	3 look   at the floor again. The writer moves it before it writes: if it is not above, the copy is intact
//
// Entries have numbers, so the reader knows how many it has missed.

// WithLossyReader has OpenReader make a reader that the writer does not wait for. It reads broadcast buffers only: a
// lossy sharing reader would lose entries that other readers could have got.
func WithLossyReader() Option { return func(o *options) { o.lossyReader = true } }

// OverwrittenError says how many entries were overwritten before a lossy reader had read them. The reader goes on
// behind them.
type OverwrittenError struct {
	Segment string
	Entries uint64 // modulo 2^32
}

func (e *OverwrittenError) Error() string {
	return fmt.Sprintf("segment %s: %d entries were overwritten before they were read", e.Segment, e.Entries)
}

// lossyReader is the state of a lossy reader.
type lossyReader struct {
	isLossy            bool
	positionLost       bool // the position was overwritten: the next header's number says how many entries were
	entryCopy          []byte
	overwrittenEntries uint64
	fence              atomic.Uint32
}

// joinLossy begins at the oldest entry in the buffer. The writer does not track a lossy reader's position.
func (c *readerCore) joinLossy() error {
	r := c.buffer
	if r.mode == Sharing {
		return errLossySharing
	}
	c.words.state.Store(readerLossy)
	c.pos = r.floor.Load()
	c.ordinalKnown = c.pos == 0 // the first entry has the number 0
	r.spaceBell.Wake()          // the writer may be waiting for a first reader
	return nil
}

// wasOvertaken reports whether the writer may have overwritten the bytes read at the position.
func (c *readerCore) wasOvertaken() bool {
	if !c.isLossy {
		return false
	}
	c.fence.Add(1) // orders the loads before and after it, on every processor
	return c.buffer.floor.Load() > c.pos
}

// countOverwritten counts the entries missed before the next one, whose number is ordinal.
func (c *readerCore) countOverwritten(ordinal uint32) error {
	lost := uint64(ordinal - c.ordinal)
	c.ordinal, c.positionLost = ordinal, false
	c.overwrittenEntries += lost
	c.words.overwritten.Store(c.overwrittenEntries)
	c.buffer.entriesOverwritten.Add(lost)
	return &OverwrittenError{Segment: c.buffer.name, Entries: lost}
}

// overwrittenAtEnd counts the entries missed between the last one that the reader has read and the end of the run.
func (c *readerCore) overwrittenAtEnd() error {
	if c.isLossy && c.ordinalKnown && c.positionLost && c.ordinal != uint32(c.buffer.entryCount.Load()) {
		return c.countOverwritten(uint32(c.buffer.entryCount.Load()))
	}
	return nil
}

// Overwritten is how many entries lossy readers have reported as overwritten before they had read them.
func (w *Writer) Overwritten() uint64 { return w.core.buffer.entriesOverwritten.Load() }
