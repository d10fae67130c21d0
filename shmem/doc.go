// Package shmem is the memory that Ringlet's network writes into: segments of shared memory,
// the table of who may write where, event slots, and Reader/Writer ring buffers between processes.
//
// It stands for four ideas of the founding documents. The segment is the exported region of
// global shared memory (L1-farm §7.3). Table is the upstream address translation and protection table of the PCI-SCI
// bridge (SCI-bridge §II.A): exported pages, closed by default, opened page by page to a peer for dmove or nwrite;
// byte-exact grants on top make sure that a byte of a slot is written by one grant. Slots is the builder's set of
// receive buffers (TagNet-farm §III.B), each with one owner. Writer and Reader are the buffer interface of the LHCb
// Run-3 event builder (LHCb-EB §III.B): hand out a place in memory, take an acknowledgement.
//
// # What the caller must do, in order
//
// Receiving from the network:
//
//  1. Sweep the node's prefix, to be rid of segments whose creator was killed.
//  2. Create a Segment, or CreateSlots for a segment divided into slots.
//  3. Export its Bytes in a Table, with rules that open pages to peers. What no rule opens is closed. In a
//     NewSharedTable, ExportSegment opens it also to peers in other processes of this host, which
//     OpenTable, and Acquire and Release there themselves.
//  4. For each transfer: Grant a byte range to one peer, hand it the Ref; for each packet Acquire, write,
//     Release; when the transfer is complete, or its sender is gone, Revoke. After Revoke no
//     writer is inside and the bytes are the caller's.
//  5. Evict a peer whose link is gone, so that its dead or stuck process holds up no Revoke.
//  6. Revoke every grant, Withdraw the segment from the table, Close it; Close a shared table last.
//
// Passing entries between processes:
//
//  1. One process calls CreateWriter, each of the others OpenReader. The writer that wants every
//     reader to see every entry waits for them first.
//  2. Reserve a place, fill it, Commit it. Next gives an entry to read, Ack
//     gives it back. Several places may be out at a time, and end in any order.
//  3. End marks the end of the run; readers get ErrEndOfRun after the last entry.
//  4. On a reader's death DetachDead frees what it held; on the writer's death readers get
//     ErrWriterGone once they have had every entry.
//  5. Close, readers and writer in any order.
//
// Layouts that another language can read: docs/format/segment.md and docs/format/buffer.md; the ring of
// records, package ring, is in docs/format/ring.md.
//
// # What it does not promise
//
// It runs on 64-bit little-endian Linux. Memory is protected from peers on the network, not from
// processes of the same user, which can write anywhere in it. Its size is sealed: nobody can take any of it away from
// those who have it mapped. It ends with the last process that has it open or mapped: after a writer was killed,
// readers that have it open keep it. Values that another process can write into a header are checked and give a
// *corruptError, but payload is not. A slice of a segment used after Close is a fault. Nothing here survives a
// restart of the machine.
package shmem
