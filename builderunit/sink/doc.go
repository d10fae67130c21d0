// Package sink takes the multi-event packets that a builder unit has completed to where they are wanted: nowhere, a file, or
// the memory of a filter process.
//
// It stands for the output of the builder unit of seed 002 (L12: "MEPs in a shared buffer … to a filter", L8: the Writer that
// hands out a place in memory and takes an acknowledgement) and, for files, for recording to disk in LHCb's own formats.
//
// # The kinds
//
//   - Discard counts and forgets.
//   - File writes a file: MEPs as they were built, their MFPs one after another, or MDF with each event rebuilt. A replayed
//     event becomes the record it was, byte for byte; a generated one becomes a record with one bank per source.
//   - Buffer copies each MEP into a shared-memory buffer (package shmem), for a filter on the same machine.
//
// # What the caller must do, in this order
//
//  1. Make a sink, one per builder unit.
//  2. Write each MEP from one goroutine, in whatever order they are completed. The bytes may be reused when Write returns.
//     An error of a file is final: every later call gives it again.
//  3. Finish makes the output whole; or Abort takes away what was begun. Abort after Finish does nothing, so it can be deferred.
//  4. Several builders of one output file each write a part (FileConfig.Part, PartPath); when all have finished, one process
//     calls Merge, or RemoveParts if the run failed.
//
// # Whole or not at all
//
// A file is written under a temporary name in the directory of its destination, synchronised, and renamed when it is whole.
// What stood under the name before stays until then. Builders complete MEPs out of order, so a file that is not in order of
// MEP at the end is copied into a second temporary in order; of several attempts at one MEP the highest counts. A full disk
// is a *SinkError with a sentence, never a short file.
//
// # What it does not promise
//
// Putting a file in order, and Merge, need room for the data twice. The index of a file is held in memory: 32 bytes per MEP.
// A process killed in between leaves its temporaries; they begin with a dot and end in .part, and RemoveTemporaries finds them.
package sink
