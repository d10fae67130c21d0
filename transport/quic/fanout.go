package quic

import "sync"

// Where a node has processors for it, each session opens its packets in a goroutine of its own, and the socket's reader
// only reads. A read changes hands with its buffer; buffers come from a bounded pool, so a session that lags holds up
// the reader, and the kernel then drops what does not fit its own buffer, as it would for a slow reader.

// readSize is the most one read brings.
const readSize = 1 << 16

// readBufferPoolSize bounds the reads under way: 4 MiB, as much as the credit of four links.
const readBufferPoolSize = 64

// readBufferPool is where buffers of reads come from.
type readBufferPool struct {
	free chan []byte
}

func newPool() *readBufferPool {
	p := &readBufferPool{free: make(chan []byte, readBufferPoolSize)}
	for range readBufferPoolSize {
		p.free <- make([]byte, readSize)
	}
	return p
}

// queuedRead is a read on its way to a session.
type queuedRead struct {
	buf     []byte // of the pool
	n       int
	segment int
}

// inbox is where a session's reads wait.
type inbox struct {
	reads chan queuedRead // room for all there can be

	mu     sync.Mutex // guards closed
	closed bool
}

// put gives a read to the session; one that is over gives the buffer back.
func (i *inbox) put(p *readBufferPool, m queuedRead) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		p.free <- m.buf
		return
	}
	i.reads <- m
}

// close gives back what waits.
func (i *inbox) close(p *readBufferPool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	for len(i.reads) > 0 {
		p.free <- (<-i.reads).buf
	}
}

// serve takes a session's reads until its connection is over.
func (c *expressConn) serve(p *readBufferPool) {
	r := newReceiveScratch()
	defer c.inbox.close(p)
	for {
		select {
		case m := <-c.inbox.reads:
			c.receive(&r, m.buf[:m.n], m.segment)
			p.free <- m.buf
			if len(c.inbox.reads) == 0 {
				c.notifyIdle()
			}
		case <-c.qc.Context().Done():
			return
		}
	}
}
