// Package link is one end of a link between two nodes, as a pure state machine: it turns remote writes, fences and
// signals into datagrams, and received datagrams into events.
//
// It is the transaction layer of the founding documents: requests apart from responses (SCI-bridge §II.B.1), a free
// list of transaction ids that is independent of buffers (SCI-bridge §III.B), nwrite with and dmove without a response
// (SCI-bridge §III.D), acks per packet, cumulative credits (NIC-crossbar §3.3.1), protection checked before a byte
// moves (SCI-bridge §II.A).
//
// The owner's duties, always under one lock or from one goroutine:
//
//  1. Write, Signal, Fence whenever there is something to send; false means the queue is full: wait for events.
//  2. Next until it returns 0, sending each datagram, after every call of the others.
//  3. Receive for each datagram that arrives, then EndBatch when no more is at hand, then Events.
//  4. Tick no later than Deadline.
//
// The link promises the following if the carrier never alters a datagram and now and then delivers one: every nwrite is
// placed exactly once or refused, and its writer learns which; signals arrive once and in order; no byte is written
// outside a grant of the export table; no more datagrams are outstanding than the peer has granted. It does not promise
// an order between writes (use Fence), nor integrity over a carrier that alters bytes (quic authenticates each packet;
// the MFP's CRC-32C is checked end to end).
package link
