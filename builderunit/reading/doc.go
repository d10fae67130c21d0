// Package reading reads the events that builder units hand out in shared memory, as a program of a user would: by
// docs/format/buffer.md.
//
// It stands for the consumer of the buffer interface of the LHCb Run-3 event builder (LHCb-EB §III.B and §IV.B).
//
// # What the caller must do
//
// Call Print with the name of the output.
//
// # What it does not promise
//
// An event may come twice: a MEP whose builder unit was excluded is built again in a higher attempt, and both are
// printed, since Print cannot take back what it has printed. Where a builder unit was killed, no entry marks its last
// MEP as superseded.
package reading
