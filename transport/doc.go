// Package transport moves bytes into other nodes' exported memory: remote writes, fences and signals over datagrams.
//
// The network is memory, as in the founding documents (SCI: L1-farm §4.4, TagNet-farm §II.B, SCI-bridge §II): a node
// exports segments through a shmem.Table, grants windows of them to peers, and peers write there. The rules of a link
// are a pure state machine in transport/link; this package gives it goroutines, a clock and a carrier. Between two
// processes of one host there need be no datagrams: transport/local stores into the peer's memory. Carriers are
// transport/quic and transport/simnet.
//
// What the caller must do, in this order: New with a Handler, Connect, then Write, Fence and Signal, then Close. A
// node's link to itself is one of those, over memory and not over a network.
//
// Broken rules harm no memory. A peer that is not in the view, or speaks another version, is refused at its hello. A
// write outside a grant is refused; the writer gets the reason, and the owner an event. A datagram that does not parse
// is dropped. Each of these is counted.
//
// The package does not promise that a peer is alive. If a link fails, Handler.LinkDown reports it once, and every later
// request to that peer returns an error; the layers above decide what follows.
package transport
