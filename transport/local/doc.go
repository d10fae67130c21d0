// Package local is one end of a link between two processes of one host: remote writes, signals and fences without a
// socket.
//
// It takes the idea that carries everything at its word: the network is memory. The peer's exported segments are
// mapped, and a remote write is a store into them, checked by the peer's export table (shmem.OpenTable) as a datagram
// would be. A message only tells the peer that bytes are in place; it goes through a mailbox, a ring buffer in shared
// memory that the receiver owns and one sender fills. While the receiver is awake nobody makes a system call.
//
// What the caller must do, in this order: New, hand Offer to the peer by a connection that has proved who it is, Join
// with the peer's Offer, Start, then Write, WriteMany, Signal and Fence from any goroutine, then Close. That the peer
// died is for that connection to find; Close then releases whoever waits, and the owner of the table calls Evict.
//
// The link of a node to itself is one of these, too (NewSelf): the same records in a ring buffer of its own memory.
//
// What it promises: what package link promises, in the order of the calls of one goroutine. What it does not:
// protection from a process of the same user that means harm. Such a one can write into every segment it maps, as it
// can into any process of its user; nothing it writes there makes this side panic or touch memory outside what is
// mapped. docs/design/012-local.md says more.
package local
