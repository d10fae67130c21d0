package shmem

import (
	"fmt"
	"sync/atomic"
)

// A reader that may lose is one that the writer does not wait for: what it has not read is overwritten when the writer
// needs the room. It takes copies, in this order:
//
//	1 look   the floor: if it is above the reader's position, that was overwritten; go on at the floor
//	2 copy   header and data, which the writer may be overwriting meanwhile
//	3 look   the floor again. The writer moves it before it writes, so if it is not above the position, the copy is whole
//
// Entries have numbers, so the reader knows how many it has not seen.

// WithLossyReader has OpenReader make a reader that the writer does not wait for. It reads broadcast buffers alone: a
// sharing reader takes entries away from others, who would not know that they are lost.
func WithLossyReader() Option { return func(o *options) { o.lossyReader = true } }

// OverwrittenError says how many entries were overwritten before a reader that may lose had read them. The reader goes
// on behind them.
type OverwrittenError struct {
	Segment string
	Entries uint64 // modulo 2^32
}

func (e *OverwrittenError) Error() string {
	return fmt.Sprintf("segment %s: %d entries were overwritten before they were read", e.Segment, e.Entries)
}

// lossyReader is the state of a reader that may lose.
type lossyReader struct {
	isLossy            bool
	positionLost       bool // the position was overwritten: the number of the next header says how much was lost
	entryCopy          []byte
	overwrittenEntries uint64
	fence              atomic.Uint32
}

// joinLossy begins at the oldest entry that is there. The writer need not know where that is.
func (c *readerCore) joinLossy() error {
	r := c.buffer
	if r.mode == Sharing {
		return errLossySharing
	}
	c.words.state.Store(readerLossy)
	c.pos = r.floor.Load()
	c.ordinalKnown = c.pos == 0 // the first entry has the number 0
	r.spaceBell.Wake()          // for a writer that waits for a first reader
	return nil
}

// wasOvertaken tells whether what stands at the position, and was read before, may have been overwritten.
func (c *readerCore) wasOvertaken() bool {
	if !c.isLossy {
		return false
	}
	c.fence.Add(1) // orders the loads before it and behind it, on every processor
	return c.buffer.floor.Load() > c.pos
}

// countOverwritten counts the entries up to the number of the next one.
func (c *readerCore) countOverwritten(ordinal uint32) error {
	lost := uint64(ordinal - c.ordinal)
	c.ordinal, c.positionLost = ordinal, false
	c.overwrittenEntries += lost
	c.words.overwritten.Store(c.overwrittenEntries)
	c.buffer.entriesOverwritten.Add(lost)
	return &OverwrittenError{Segment: c.buffer.name, Entries: lost}
}

// overwrittenAtEnd counts what was overwritten behind the last entry that the reader has seen, where the writer has
// ended.
func (c *readerCore) overwrittenAtEnd() error {
	if c.isLossy && c.ordinalKnown && c.positionLost && c.ordinal != uint32(c.buffer.entryCount.Load()) {
		return c.countOverwritten(uint32(c.buffer.entryCount.Load()))
	}
	return nil
}

// Overwritten is how many entries were overwritten before readers that may lose had read them, as these tell.
func (w *Writer) Overwritten() uint64 { return w.core.buffer.entriesOverwritten.Load() }
