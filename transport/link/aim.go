package link

import "ringlet/shmem"

// The way of a datagram that its carrier opens by itself (carrier quic):
//
//	1 Aim      (sequential) the head, not yet believed, tells where the body may go: a pin
//	2 opening  (the carrier) the body is opened straight into its place
//	3 Land     (sequential) it was authentic: number, chunk and credit are noted; or Miss: it was not
//
// What is not aimed is opened aside and goes to Receive. A place is given only for a chunk that is missing from an
// nwrite which an authentic datagram has begun, so a forged one can spoil nothing that was placed: its bytes are
// overwritten by the true ones. A dmove gets none: it is over although chunks of it are missing, and later writes may
// have been placed there.

// BulkHead is how much of a datagram that holds one full chunk stands before the chunk's bytes.
const BulkHead = headerSize + writeHeaderSize

// aimed is a chunk between Aim and Land.
type aimed struct {
	header header
	frame  writeFrame
	tx     *inTx
	n      uint32
}

// Aim says where the n bytes behind a head of BulkHead bytes belong, or nil when they are to be opened aside. Until
// Land or Miss, one of which must follow a place that is not nil, the memory is pinned.
func (c *Core) Aim(head []byte, n int) []byte {
	if len(head) != BulkHead || n != c.unit || head[headerSize] != frameWrite {
		return nil
	}
	h, err := parseHeader(head)
	if err != nil || h.view != c.cfg.View || h.kind != laneRequests || !c.recv[laneRequests].fresh(h.seq) {
		return nil
	}
	f := &c.aimed.frame
	if parseWriteHead(head[headerSize:], c.unit, n, f) != "" {
		return nil
	}
	t := &c.in[f.tx%maxTx]
	ref := shmem.Ref{Window: f.window, Gen: f.gen}
	if !t.used || t.id != f.tx || t.state != txFilling || t.total != f.total || t.base != f.base || t.ref != ref ||
		t.dmove || f.flags&flagDmove != 0 || t.has(f.chunk) {
		return nil
	}
	dst, v := c.cfg.Table.Acquire(c.cfg.Peer, ref, f.base+uint32(f.chunk)*uint32(c.unit), uint32(n), shmem.AccessNwrite)
	if v != 0 {
		return nil
	}
	c.aimed.header, c.aimed.tx, c.aimed.n = h, t, uint32(n)
	return dst
}

// Miss says that what was aimed is not authentic.
func (c *Core) Miss() { c.cfg.Table.Release(c.aimed.tx.ref) }

// Land says that what was aimed is authentic and in its place.
func (c *Core) Land(now int64) {
	a := &c.aimed
	c.cfg.Table.AddWritten(a.tx.ref, a.n)
	c.cfg.Table.Release(a.tx.ref)
	c.stats.DatagramsReceived++
	c.now = now
	c.count(&a.header)
	c.recv[laneRequests].accept(a.header.seq)
	c.joins[laneRequests].forget(a.header.seq)
	c.landed(a.tx, &a.frame, a.n)
}

// NextGather is Next for a carrier that takes a datagram in two parts: when it returns a body, that lies where the
// writer has it, stays valid as long as no other method is called, and follows the BulkHead bytes in buf.
func (c *Core) NextGather(now int64, buf []byte) (n int, body []byte) {
	c.gather, c.body = true, nil
	n = c.Next(now, buf)
	body = c.body
	c.gather, c.body = false, nil
	return n, body
}

// leaveBody puts the head of a full chunk and leaves its bytes where they are. It reports false if the chunk is not one
// to be left.
func (c *Core) leaveBody(b []byte, t *outTx, chunk int) bool {
	if !c.gather || t.pieces != nil || chunkLen(len(t.data), c.unit, chunk) != c.unit {
		return false
	}
	c.putChunkHead(b, t, chunk, c.unit)
	c.body = t.data[chunk*c.unit : (chunk+1)*c.unit]
	return true
}
