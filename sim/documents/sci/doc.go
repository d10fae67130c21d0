// Package sci models networks of SCI rings, packet by packet with the times of symbols: a ring, a torus of two or three
// dimensions, and the cards between rings and PCI buses.
//
// It is the hardware of L1-farm §4.4.3 and §5 (Dolphin's link chip LC3, its bus B-Link, the PCI card) and the torus of
// TagNet-farm §V. [Config] and [Dolphin] have the parameters with their places in the documents.
//
// # The path of a packet
//
//  1. A program calls [Node.Send] when the first data word of a burst is on its PCI bus. The packet takes one of the
//     card's streams, or is refused: a retry on the bus.
//  2. The filled stream crosses the card and the B-Link into a slot of the send queue of the ring in the packet's first
//     dimension. It stays there until this ring's echo.
//  3. The link sends it when no packet by-passes and the go bits allow it. Each node on the path delays it by the
//     by-pass time, and longer while that node's own packet is on the link.
//  4. The node that takes it off the ring answers with an echo: done, or busy if its receive queue is full. After busy
//     the sender's slot sends again.
//  5. If the dimension changes, the packet crosses the B-Link to the send queue of the next ring: X, then vertical,
//     then Z.
//  6. At its destination it crosses the B-Link and the card, waits for the PCI bus, and is handed to [Node.Receiver] at
//     its first data word there. A response returns by the same rules, and frees the stream.
//
// # What is modelled
//
// Cut-through in by-passing nodes and store-and-forward in routing ones; slots and queues with separate room for
// requests and responses; by-pass before own packets: a node sends only when its by-pass FIFO is empty (L1-farm §4.4.3)
// and some time has passed since a request left it; go bits as "stop" from a node that starves to all others, with the
// delay of the ring.
//
// The by-pass FIFO needs no limit: while a node sends its own packet, at most one packet's symbols can arrive.
//
// # What is not
//
// Reads, locks, coherence, CRC errors, partial streams that wait for a time-out, and the ageing of retried packets.
package sci
