// Package local is one end of a link between two processes of one host: remote writes, signals and fences without a
// socket.
//
// In it, the network is memory. The link maps the peer's exported segments, and a remote write is a store into them;
// the peer's export table checks it (shmem.OpenTable) as it would check a datagram. A record then tells the peer that
// the bytes are in place. It goes through a mailbox, a ring buffer in shared memory that the receiver owns and one
// sender fills. While the receiver is awake, no process makes a system call.
//
// The caller must do the following, in this order: New; send Offer to the peer over a connection that has proved the
// peer's name; Join with the peer's Offer; Start; then Write, WriteMany, Signal and Fence from any goroutine; Close.
// That connection must detect the peer's death; Close then releases waiting callers, and the owner of the table calls
// Evict.
//
// A node's link to itself is one, too (NewSelf): its mailbox lies in the process's own memory.
//
// The package promises what package link does, in the order of the calls of one goroutine. It does not protect from a
// malicious process of the same user. Such a process can write into every segment it maps, as it can into any process
// of its user; but whatever it writes there, this side does not panic, nor touch memory outside its mappings.
// docs/design/012-local.md says more.
package local
