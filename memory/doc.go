// Package memory is remote memory: a process exports segments under a name; other processes in the view import them,
// and write, read, and change words of them atomically.
//
// It implements the PCI-SCI bridge of SCI-bridge §II and the card of NIC-crossbar §2.1. Exported pages have attributes,
// and are opened page by page to peers (SCI-bridge §II.A and §III.D). Small writes are combined in write buffers, which
// are separate from outstanding transactions (SCI-bridge §III.A and §III.B). There are 16 ordering contexts, time-outs,
// and separate requests and answers (SCI-bridge §II.B.1 and §II.B.2). Both address tables can be printed.
//
// # What the caller must do, in order
//
// The owner of memory:
//
//  1. New, with the view and this process's rank in it; then Connect, or Reconnect for a process that comes and goes.
//  2. Export a shmem.Segment under a name, with Pages that open parts of it to peers.
//  3. Close the Export: when that returns, no peer is inside the bytes. A new export of the same name is another one:
//     importers of the former get ErrRevoked, and must import again.
//  4. Close the Space, and only then the network, the table and the segments.
//
// The user of memory:
//
//  1. New, Connect.
//  2. Import by "name", or by "name@node" where several nodes export that name.
//  3. Write, WriteMany, Read, Add, Swap, CompareAndSwap, Notify, Wait, from any goroutine; Fence to get the outcome of
//     writes to combining pages, or of Post. InContext returns the same import in another ordering context.
//  4. Close the Import, Close the Space.
//
// # What becomes of a transaction
//
// A transaction ends as Done, Refused or Unknown; an error is an *Error that says which. Refused: it has done nothing,
// except a write of more than one part, where Error.Partial says that some bytes may be in place. Unknown: it was sent,
// and no answer came in time, or the link is over; it was done once, or not. This package sends no request a second
// time, and an owner accepts each request of a link once. So no lock is taken twice; after an Unknown the caller can
// read the word, which names the lock's holder.
//
// Each transaction has a time-out: the earlier of its context's deadline and Config.Timeout. When a method returns,
// whatever the outcome, the caller may reuse the buffer that it has passed.
//
// # Order
//
// A transaction on pages with the attribute Ordered, an Add, a Swap, a CompareAndSwap, a Notify and a Fence start when
// all earlier transactions of their context are over, and later ones start when they are over. All others run side by
// side. Contexts do not wait for each other. An Unknown transaction delays the ordered ones of its context until the
// link has reported its outcome, or is over.
//
// Writes to Combining pages return when their bytes are in a write buffer. The buffer leaves when a page is full, when
// a write does not continue it, after 100 µs, and before any other transaction of its context starts. If such a write
// fails, later ones in its context are refused with ErrEarlier, until Fence has returned the error.
//
// # Writing to several owners in turn
//
// Write waits for its outcome, so a slow owner would delay the writes to the next one. Post does not wait: each owner
// has a queue of its own, of bounded size, and a full queue refuses at once with ErrFull (virtual output queues). A
// fence waits for its context alone, so use a context per owner.
//
// # Carriers
//
// Over a network a write is a remote write of transport into a window that the owner has granted; the owner answers a
// read of more than 960 bytes by remote writes into the reader's own memory; the owner's processor changes words. With
// the carrier local, and in a process's own memory, all these are loads and stores into the mapped segment. The two
// kinds work together: in both, atomic instructions of a processor change a word.
//
// # What it does not promise
//
// Reads and writes of more than one aligned word are not atomic. Two unordered writes may be placed in either order. A
// peer may write arbitrary bytes to pages that are open to it. With the carrier local the importer makes the checks
// (docs/design/012-local.md). Words are little-endian.
package memory
