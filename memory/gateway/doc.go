// Package gateway lets a process that is not Ringlet's use remote memory: a client fills a ring of descriptors in
// shared memory, and this package carries them out as transactions of a memory.Space. The layout, which clients/c and
// clients/python implement, is docs/format/door.md; the reasons are in docs/design/055-remote-memory.md.
//
// It implements the protected user-level transfers of SCI-bridge §II.A and the request queue of the card of
// NIC-crossbar §3.1.3: 1,024 entries of up to 4 kB or a list, several started by one store, a word written when each is
// over, and a notice at the destination of the bytes.
//
// # What the caller must do, in order
//
//  1. Make a Gateway, with a connected Space. Its data area is the only memory of this process that a client's
//     transfers can name.
//  2. Serve, which serves one client after the other until the context is done, and then closes the gateway.
//  3. Stats at any time.
//
// # Pipeline
//
//	client   writes descriptors into the ring, and stores "started" once
//	serve    1 count   (sequential)           counts new descriptors; an impossible count closes the gateway
//	         2 accept  (sequential)           copies each once, checks it against a table, and answers refusals
//	         3 do      (sequential)           loads and stores, unless an earlier request of the context is under way
//	worker   3 do      (one per context)      all others, in the order of their context; writes travel together
//	both     4 answer  (parallel)             a completion word each, then the bell
//
// # What it does not promise
//
// The gateway checks everything in the shared memory, and no client can reach bytes that the grants of the Space do not
// open. But every process of the user can open a gateway. If a client changes bytes during their transfer, either the
// old or the new ones arrive.
package gateway
