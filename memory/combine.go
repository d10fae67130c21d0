package memory

// Write buffers, as a pure core: which small writes travel together (SCI-bridge §III.A). A buffer only grows, by writes
// that begin where it ends. It leaves at the end of its page, when a write of its context does not continue it, when
// its time is over, and when anything else of its context is to start. Four are open at a time; the oldest gives way to
// a fifth.

import "time"

const (
	numWriteBuffers = 4
	bufferSize      = PageSize
	combineTimeout  = 100 * time.Microsecond
)

// bufferKey names what a write buffer belongs to.
type bufferKey struct {
	imported any // an import
	context  int
}

type writeBuffer struct {
	bufferKey
	inUse   bool
	off     int64 // in the segment
	n       int
	flushAt int64 // ns
}

type combiner struct{ buffers [numWriteBuffers]writeBuffer }

// join appends a write of n bytes to an open buffer, and says to which and where in it. Full says that it must leave.
func (c *combiner) join(k bufferKey, off int64, n int) (buffer, at int, full, ok bool) {
	for i := range c.buffers {
		b := &c.buffers[i]
		if b.inUse && b.bufferKey == k && off == b.off+int64(b.n) && off/PageSize == b.off/PageSize &&
			(off+int64(n)-1)/PageSize == b.off/PageSize {
			at = b.n
			b.n += n
			return i, at, (b.off+int64(b.n))%PageSize == 0, true
		}
	}
	return 0, 0, false, false
}

// victim says which buffer must leave before a write that continues none can open one: first those of its context,
// which it would overtake, then the oldest where none is free.
func (c *combiner) victim(k bufferKey) (buffer int, ok bool) {
	oldest := noSlot
	for i := range c.buffers {
		b := &c.buffers[i]
		switch {
		case b.inUse && b.context == k.context:
			return i, true
		case !b.inUse:
			oldest = len(c.buffers)
		case oldest == noSlot || oldest < len(c.buffers) && b.flushAt < c.buffers[oldest].flushAt:
			oldest = i
		}
	}
	return oldest, oldest < len(c.buffers)
}

// begin opens a buffer with its first write. There is a free one when must has found none.
func (c *combiner) begin(k bufferKey, off int64, n int, now int64) (buffer int, full bool) {
	for i := range c.buffers {
		if b := &c.buffers[i]; !b.inUse {
			*b = writeBuffer{
				bufferKey: k,
				inUse:     true,
				off:       off,
				n:         n,
				flushAt:   now + int64(combineTimeout),
			}
			return i, (off+int64(n))%PageSize == 0
		}
	}
	panic("memory: no write buffer is free")
}

// findOpen finds an open buffer of a context.
func (c *combiner) findOpen(context int) (buffer int, ok bool) {
	for i := range c.buffers {
		if c.buffers[i].inUse && c.buffers[i].context == context {
			return i, true
		}
	}
	return 0, false
}

// dueBuffer finds an open buffer whose time is over.
func (c *combiner) dueBuffer(now int64) (buffer int, ok bool) {
	for i := range c.buffers {
		if c.buffers[i].inUse && c.buffers[i].flushAt <= now {
			return i, true
		}
	}
	return 0, false
}

// deadline is when the next buffer leaves; 0: none is open.
func (c *combiner) deadline() (at int64) {
	for i := range c.buffers {
		if b := &c.buffers[i]; b.inUse && (at == 0 || b.flushAt < at) {
			at = b.flushAt
		}
	}
	return at
}

func (c *combiner) close(buffer int) writeBuffer {
	b := c.buffers[buffer]
	c.buffers[buffer] = writeBuffer{}
	return b
}
