// Package live turns the fragments that front-ends send while a run goes on into the blocks of a readout unit.
//
// A Feed is one source: it receives fragments from a front-end by some carrier (a ring in shared memory, a stream, UDP
// segments, a program's output) and hands them out in the order in which they came. It does not judge event numbers.
// The Matcher does: it matches the fragments of all sources of a readout unit by their event numbers and decides which
// fragments are there, are missing, or came twice or too late.
//
// It stands for the Reader and the Writer of LHCb-EB §III.B: hand out a place in memory, accept an acknowledgement.
package live
