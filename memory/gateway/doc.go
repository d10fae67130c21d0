// Package gateway lets a process that is not Ringlet's use remote memory: a ring of descriptors in shared memory, which
// a client fills and this package carries out as transactions of a memory.Space. The layout, which clients/c and
// clients/python have too, is docs/format/door.md; the reasons are docs/design/055-remote-memory.md.
//
// It stands for the protected user-level transfers of SCI-bridge §II.A and the request queue of the card of
// NIC-crossbar §3.1.3: 1,024 entries of up to 4 kB or a list, several started by one store, a word written when each is
// over, and a notice where the bytes went.
//
// # What the caller must do, in order
//
//  1. Make a Gateway, with a Space that is connected. Its data area is all of this process's memory that a client's
//     transfers can name.
//  2. Serve one client after the other, until the context is done. It closes the gateway.
//  3. Stats at any time.
//
// # Pipeline
//
//	client   descriptors into the ring, one store of "started"
//	serve    1 count   (sequential)           how many are new; a counter that cannot be closes the gateway
//	         2 accept  (sequential)           each is copied once, then checked against a table; refusals are answered
//	         3 do      (sequential)           what only loads and stores, here, if nothing before it waits in its context
//	worker   3 do      (one per context)      everything else, in the order of its context; writes travel together
//	both     4 answer  (parallel)             a completion word each, then the bell
//
// # What it does not promise
//
// Nothing in the shared memory is believed, and no client can reach bytes that the grants of the Space do not open. But
// all processes of one user can open a gateway. What a client changes while it is transferred arrives as it was, or as
// it is.
package gateway
