// Package sink takes the multi-event packets that a builder unit has completed to where they are wanted: nowhere, the
// directory of a run, or the memory of a filter process.
//
// It stands for the output of the builder unit of LHCb-EB (§IV.B: MEPs in a buffer for the filter; LHCb-EB §III.B: the
// Writer that hands out a place in memory and takes an acknowledgement) and, for files, for recording to disk in LHCb's
// own formats.
//
// # The kinds
//
//   - Discard counts and forgets.
//   - Segments records a run: output segments in its directory (package recording), with MEPs as they were built,
//     their MFPs one after another, or MDF with each event rebuilt. A replayed event becomes the record it was, byte
//     for byte; a generated one becomes a record with one bank per source.
//   - Buffer copies each MEP into a shared-memory buffer (package shmem), for a filter on the same machine.
//   - File writes a single file for tools, whole or not at all. No run records with it.
//
// # What the caller must do, in this order
//
//  1. Make a sink, one per builder unit. For Segments, open the run first (recording.OpenRun).
//  2. Write each MEP from one goroutine, in whatever order they are completed. The bytes may be reused when Write
//     returns. An error of the disk is final: every later call gives it again.
//  3. Flush, from any goroutine, before a MEP is said to be built. It is for all MEPs whose Write has returned, so
//     that one call may serve many.
//  4. Finish makes the output whole; or Abort gives it up. Both can be called again, so Abort can be deferred.
//
// # What is kept
//
// Segments keeps every MEP that it has taken, whatever its end is, but for those that the disk refused. The killing
// of the process leaves what was flushed, at durability File and Disk, and a power cut at Disk; recording.Recover
// closes it. A full disk ends the output at a whole MEP, with a *SinkError, and what was written before is closed and
// listed.
//
// # What it does not promise
//
// MEPs stand in the order in which they were completed, and one that was built twice may stand there twice: whoever
// reads goes by number and attempt. At durability Memory a kill may cost what was written within the last second.
package sink
