package quic

import "sync"

// With more than two processors each session decrypts its packets in a goroutine of its own, and the socket's reader
// only reads. It passes each read on with its buffer. Buffers come from a bounded pool: if a session lags, the reader
// waits for a buffer, and the kernel drops packets when its own buffer is full.

// readSize is the most bytes of one read.
const readSize = 1 << 16

// readBufferPoolSize bounds the reads under way: 4 MiB, the credit of four links.
const readBufferPoolSize = 64

// readBufferPool holds the free buffers for reads.
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

// queuedRead is a read on its way to a session's goroutine.
type queuedRead struct {
	buf     []byte // from the pool
	n       int
	segment int
}

// inbox holds the reads that wait for a session's goroutine.
type inbox struct {
	reads chan queuedRead // can hold all buffers of the pool

	mu     sync.Mutex // guards closed
	closed bool
}

// put passes a read to the session, or returns the buffer to the pool if the session is over.
func (i *inbox) put(p *readBufferPool, m queuedRead) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		p.free <- m.buf
		return
	}
	i.reads <- m
}

// close returns the waiting buffers to the pool.
func (i *inbox) close(p *readBufferPool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	for len(i.reads) > 0 {
		p.free <- (<-i.reads).buf
	}
}

// serve handles a session's reads until its connection is over.
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
