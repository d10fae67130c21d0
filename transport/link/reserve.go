package link

import "ringlet/shmem"

// The way of a datagram that its carrier opens by itself (carrier quic):
//
//	1 Reserve  (sequential) the head, not yet authenticated, tells where the body may go: a pin
//	2 opening  (the carrier) the body is opened straight into its place
//	3 Commit   (sequential) it was authentic: number, chunk and credit are noted; or Abort: it was not
//
// What has no reservation is opened aside and goes to Receive. A place is given only for a chunk that is missing from
// an nwrite which an authentic datagram has begun, so a forged one can spoil nothing that was placed: its bytes are
// overwritten by the true ones. A dmove gets none: it is over although chunks of it are missing, and later writes may
// have been placed there.

// BulkHeaderSize is how much of a datagram that holds one full chunk stands before the chunk's bytes.
const BulkHeaderSize = headerSize + writeHeaderSize

// reservation is a chunk between Reserve and Commit.
type reservation struct {
	header header
	frame  writeFrame
	tx     *inTransaction
	n      uint32
}

// Reserve says where the n bytes behind a head of BulkHeaderSize bytes belong, or nil when they are to be opened aside.
// Until Commit or Abort, one of which must follow a place that is not nil, the memory is pinned.
func (c *Core) Reserve(head []byte, n int) []byte {
	if len(head) != BulkHeaderSize || n != c.chunkSize || head[headerSize] != frameWrite {
		return nil
	}
	h, err := parseHeader(head)
	if err != nil || h.view != c.cfg.View || h.kind != spaceRequests || !c.recv[spaceRequests].isFresh(h.seq) {
		return nil
	}
	f := &c.reservation.frame
	if parseWriteHead(head[headerSize:], c.chunkSize, n, f) != "" {
		return nil
	}
	t := &c.inTransactions[f.tx%maxTransactions]
	ref := shmem.Ref{Window: f.window, Gen: f.gen}
	if !t.inUse || t.id != f.tx || t.state != txFilling || t.totalBytes != f.transactionSize ||
		t.windowOffset != f.transactionOffset || t.ref != ref || t.dmove || f.flags&flagDmove != 0 || t.isPlaced(f.chunk) {
		return nil
	}
	dst, v := c.cfg.Table.Acquire(c.cfg.Peer, ref, f.transactionOffset+uint32(f.chunk)*uint32(c.chunkSize), uint32(n),
		shmem.AccessNwrite)
	if v != 0 {
		return nil
	}
	c.reservation.header, c.reservation.tx, c.reservation.n = h, t, uint32(n)
	return dst
}

// Abort says that the datagram with the reservation is not authentic.
func (c *Core) Abort() { c.cfg.Table.Release(c.reservation.tx.ref) }

// Commit says that the datagram with the reservation is authentic, its body in place.
func (c *Core) Commit(now int64) {
	a := &c.reservation
	c.cfg.Table.AddWritten(a.tx.ref, a.n)
	c.cfg.Table.Release(a.tx.ref)
	c.stats.DatagramsReceived++
	c.receiveTime = now
	c.countReceived(&a.header)
	c.recv[spaceRequests].accept(a.header.seq)
	c.reassemblers[spaceRequests].discard(a.header.seq)
	c.onChunkPlaced(a.tx, &a.frame, a.n)
}

// NextGather is Next for a carrier that takes a datagram in two parts: when it returns a body, that lies where the
// writer has it, stays valid as long as no other method is called, and follows the BulkHeaderSize bytes in buf.
func (c *Core) NextGather(now int64, buf []byte) (n int, body []byte) {
	c.gathering, c.gatheredBody = true, nil
	n = c.Next(now, buf)
	body = c.gatheredBody
	c.gathering, c.gatheredBody = false, nil
	return n, body
}

// gatherBody puts the head of a full chunk and leaves its bytes where they are. It reports false if the chunk is not
// one to be left.
func (c *Core) gatherBody(b []byte, t *outTransaction, chunk int) bool {
	if !c.gathering || t.pieces != nil || chunkLen(len(t.data), c.chunkSize, chunk) != c.chunkSize {
		return false
	}
	c.putChunkHead(b, t, chunk, c.chunkSize)
	c.gatheredBody = t.data[chunk*c.chunkSize : (chunk+1)*c.chunkSize]
	return true
}
