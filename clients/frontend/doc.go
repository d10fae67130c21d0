// Package frontend is the client for front-ends: it sends fragments to a readout unit of Ringlet, through a ring in
// shared memory (OpenRing) or over a stream (Dial; docs/format/frames.md). docs/clients.md has complete programs;
// clients/c and clients/python are the same for other languages.
//
// It stands for the Writer of LHCb-EB §III.B, which hands out a place in memory and takes an acknowledgement.
//
// SlowSender sends slow data: temperatures and the like.
//
// What the caller must do with a ring, in order: OpenRing; for each event Reserve a place, fill it and Commit it, or
// Put; End after the last event of the run; Close. One front-end uses a ring at a time, and one goroutine a Ring. After
// ErrClosed or ErrGone: Close, and open the ring of the next run. With a stream: Dial; Send for each event, with
// numbers that grow; Close after the last event of the run, or Leave before. One goroutine makes these calls.
//
// Committed or sent fragments are not safe yet: Safe and Acked say up to which event they are, and Close of a stream
// waits for all. GivenUp lists fragments that are in no file of the run. The package does not check the data.
package frontend
