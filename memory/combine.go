package memory

// Write buffers, as a pure core, decide which small writes travel together (SCI-bridge §III.A). A buffer grows by
// writes that begin where it ends. It leaves at the end of its page, when a write of its context does not continue it,
// after combineTimeout, and before any other transaction of its context starts. At most four are open; a fifth replaces
// the oldest.

import "time"

const (
	numWriteBuffers = 4
	bufferSize      = PageSize
	combineTimeout  = 100 * time.Microsecond
)

// bufferKey is the import and the context of a write buffer.
type bufferKey struct {
	imported any // an import
	context  int
}

type writeBuffer struct {
	bufferKey
	inUse   bool
	off     int64 // of the first byte in the segment
	n       int
	flushAt int64 // when the buffer must leave, ns
}

type combiner struct{ buffers [numWriteBuffers]writeBuffer }

// join appends a write of n bytes to an open buffer, and returns the buffer and the place in it. full says that the
// buffer must leave.
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

// victim is for a write that continues no buffer and so needs a new one. It returns the buffer that must be sent first:
// one of the same context, since the write must not overtake it; else the oldest, if no buffer is free. ok is false if
// no buffer must be sent.
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

// begin opens a buffer with its first write. A buffer is free, since victim has found none.
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

// findOpen returns an open buffer of a context.
func (c *combiner) findOpen(context int) (buffer int, ok bool) {
	for i := range c.buffers {
		if c.buffers[i].inUse && c.buffers[i].context == context {
			return i, true
		}
	}
	return 0, false
}

// dueBuffer returns an open buffer whose time is over.
func (c *combiner) dueBuffer(now int64) (buffer int, ok bool) {
	for i := range c.buffers {
		if c.buffers[i].inUse && c.buffers[i].flushAt <= now {
			return i, true
		}
	}
	return 0, false
}

// deadline is when the next buffer must leave; 0: none is open.
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
