// Package reading reads the events that builder units hand out in shared memory, as a program of somebody else would:
// by docs/format/buffer.md.
//
// It stands for the consumer of the buffer interface of the LHCb Run-3 event builder (LHCb-EB §III.B and §IV.B).
//
// # What the caller must do
//
// Call Print, with the name of the output. Parse is for whoever has the entries by other means.
//
// # What it does not promise
//
// That an event comes once. A MEP whose builder unit was excluded is built again in a higher attempt, and both are
// printed: what was printed cannot be taken back. That a mark of the first kind comes where a builder unit was killed.
package reading
