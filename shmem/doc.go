// Package shmem is the memory that Ringlet's network writes into: segments of shared memory, the table of grants to
// peers, event slots, and buffers (Writer, Reader) between processes.
//
// It implements four ideas of the founding documents. A segment is the exported region of global shared memory (L1-farm
// §7.3). Table is the upstream address translation and protection table of the PCI-SCI bridge (SCI-bridge §II.A):
// exported pages, closed by default, opened page by page to a peer for dmove or nwrite; with byte-exact grants on top,
// only one grant covers a byte of a slot. Slots is the builder's set of receive buffers (TagNet-farm §III.B), each with
// one owner. Writer and Reader are the buffer interface of the LHCb Run-3 event builder (LHCb-EB §III.B): they hand out
// a place in memory and take an acknowledgement.
//
// # What the caller must do, in order
//
// Receiving from the network:
//
//  1. Sweep the node's prefix, to remove segments whose creator was killed.
//  2. Create a Segment, or CreateSlots for a segment divided into slots.
//  3. Export its Bytes in a Table, with rules that open pages to peers; all other pages are closed. In a
//     NewSharedTable, ExportSegment opens them also to peers in other processes of this host, which call
//     OpenTable, and then Acquire and Release themselves.
//  4. For each transfer: Grant a byte range to one peer and send the Ref to it; for each packet Acquire, write,
//     Release; when the transfer is complete, or its sender is gone, Revoke. After Revoke no
//     writer is inside, and the caller owns the bytes.
//  5. Evict a peer whose link is gone, so that Revoke does not wait for its dead or stuck process.
//  6. Revoke every grant, Withdraw the segment from the table, Close it; Close a shared table last.
//
// Passing entries between processes:
//
//  1. One process calls CreateWriter, each of the others OpenReader. If every reader must see
//     every entry, the writer waits for the readers first.
//  2. Writers Reserve a place, fill it, Commit it. Readers get an entry by Next, and return it
//     by Ack. Several places may be in use at a time, and end in any order.
//  3. End marks the end of the run; readers get ErrEndOfRun after the last entry.
//  4. After a reader's death DetachDead frees the entries it held; after the writer's death readers
//     get ErrWriterGone once they have had every entry.
//  5. Close, readers and writer in any order.
//
// Layouts for other languages: docs/format/segment.md and docs/format/buffer.md; docs/format/ring.md for package ring.
//
// # What it does not promise
//
// The package runs on 64-bit little-endian Linux. It protects memory from peers on the network, not from processes of
// the same user, which can write anywhere in it. A segment's size is sealed: no process can remove memory that another
// one has mapped. The memory lives until the last process has unmapped and closed it: after a writer was killed, its
// readers keep it. Values in headers, which other processes can write, are checked and give a *corruptError; payload is
// not checked. Using a slice of a segment after Close is a fault. Nothing survives a restart of the machine.
package shmem
