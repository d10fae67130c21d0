// Package memory is remote memory: segments that one process exports under a name, and others import from anywhere in
// a view, to write, read, and change words of them in one step.
//
// It stands for the PCI-SCI bridge of SCI-bridge §II and the card of NIC-crossbar §2.1. The exported pages have
// attributes, and are opened page by page to peers (SCI-bridge §II.A and §III.D). Small writes are combined in write
// buffers, apart from the transactions outstanding (SCI-bridge §III.A and §III.B). There are 16 ordering contexts,
// time-outs, and requests apart from answers (SCI-bridge §II.B.1 and §II.B.2). Both address tables can be printed.
//
// # What the caller must do, in order
//
// The owner of memory:
//
//  1. New, with the view and this process's rank in it; then Connect, or Reconnect for a process that comes and goes.
//  2. Export a shmem.Segment under a name, with Pages that open parts of it to peers.
//  3. Close the Export: when that returns, nobody is inside the bytes. A new export of the same name is another one:
//     who imported the former gets ErrRevoked, and imports again.
//  4. Close the Space, and only then the network, the table and the segments.
//
// The user of memory:
//
//  1. New, Connect.
//  2. Import by "name", or by "name@node" where several nodes export that name.
//  3. Write, WriteMany, Read, Add, Swap, CompareAndSwap, Notify, Wait, from any goroutine; Fence where the outcome of
//     writes to combining pages, or of Post, is wanted. InContext gives the same import in another ordering context.
//  4. Close the Import, Close the Space.
//
// # What becomes of a transaction
//
// It ends as Done, Refused or Unknown, and an error that is not nil is an *Error that says which. Refused: nothing of
// it was done, but for a write of more than one part, where Error.Partial says that some bytes may be in place.
// Unknown: it was sent, and no answer came in time, or the link is over; it may have been done, once, or not. Nothing
// is ever sent a second time by this package, and an owner takes each request of a link once. So a lock is never taken
// twice; who is left with Unknown reads the word, which holds the owner of the lock, and knows.
//
// Each transaction has a time-out: the deadline of its context, or Config.Timeout if that is sooner. A buffer given to
// a method is the caller's again when the method returns, whatever the outcome.
//
// # Order
//
// A transaction on pages with the attribute Ordered, an Add, a Swap, a CompareAndSwap, a Notify and a Fence start when
// everything before them in their context is over, and what is behind them starts when they are over. All others run
// side by side. Contexts do not wait for each other. A transaction that is Unknown holds up the ordered ones of its
// context until the link has told its outcome, or is over.
//
// Writes to Combining pages return when their bytes are in a write buffer. It leaves when a page is full, when a write
// does not continue it, after 100 µs, and before anything else of its context starts. If such a write fails, what
// follows in its context is refused with ErrEarlier, until Fence has told.
//
// # Who writes to several owners in turn
//
// Write waits for its outcome, so one owner that stands still would hold up what goes to the next. Post does not wait:
// each owner has a queue of its own, of bounded size, and what finds it full is refused at once with ErrFull (virtual
// output queues). A fence waits for its context alone, so give each owner a context.
//
// # Carriers
//
// Over a network a write is a remote write of transport into a window that the owner has granted; a read of more than
// 960 bytes is answered by remote writes into the reader's own memory; words are changed by the owner's processor.
// Where the carrier is local, and in a process's own memory, all of it is loads and stores into the mapped segment.
// Both kinds meet: a word is changed by the processor's own instructions in either case.
//
// # What it does not promise
//
// Reads and writes of more than one aligned word are not one step. Two writes that are not ordered may land in any
// order. A peer that its pages are open to may fill them with nonsense. Over local the checks are those of the importer
// (docs/design/012-local.md). A word changed in one step is little-endian.
package memory
