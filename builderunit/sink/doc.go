// Package sink writes the multi-event packets that a builder unit has completed to their output: nowhere, the
// directory of a run, or memory shared with a filter process.
//
// It stands for the output of the builder unit of LHCb-EB (§IV.B: MEPs in a buffer for the filter; LHCb-EB §III.B: the
// Writer that hands out a place in memory and takes an acknowledgement) and, for files, for recording to disk in
// LHCb's own formats.
//
// # The kinds
//
//   - Discard counts MEPs and keeps nothing.
//   - Segments records a run: output segments in its directory (package recording), with MEPs as they were built,
//     their MFPs one after another, or MDF with each event rebuilt. A replayed event becomes the record that it was,
//     byte for byte; a generated one becomes a record with one bank per source.
//   - Buffer copies each MEP into a shared-memory buffer (package shmem), for a filter on the same host.
//   - File writes a single file for tools, whole or not at all. No run records with it.
//
// # What the caller must do, in this order
//
//  1. Make a sink, one per builder unit. For Segments, open the run first (recording.OpenRun).
//  2. Write each MEP from one goroutine, in whatever order they are completed. The caller may reuse the bytes when
//     Write returns. An error of the disk is final: every later call returns it again.
//  3. Flush, from any goroutine, before a MEP is reported as built. It covers all MEPs whose Write has returned, so
//     that one call may serve many.
//  4. Finish completes the output; or Abort gives it up. Both may be called again, so Abort can be deferred.
//
// # What is kept
//
// Segments keeps every MEP that Write accepted, however the output ends, but for MEPs that the disk refused. If the
// process is killed, everything flushed remains with durability File and Disk; after a power cut, with Disk. Then
// recording.Recover closes the output. A full disk ends the output at a whole MEP, with a *SinkError; the MEPs written
// before are closed and listed.
//
// # What it does not promise
//
// MEPs stand in the order in which they were completed, and a MEP that was built twice may stand there twice: readers
// must go by number and attempt. At durability Memory a kill may cost the MEPs of the last second.
package sink
