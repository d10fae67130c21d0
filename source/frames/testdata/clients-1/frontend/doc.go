// Package frontend is the side of a front-end: it hands fragments to a readout unit of Ringlet, through a ring in
// shared memory (OpenRing) or over a stream (Dial; docs/format/frames.md). docs/clients.md has complete programs;
// clients/c and clients/python are the same for other languages.
//
// It stands for the Writer of LHCb-EB §III.B: hand out a place in memory, take an acknowledgement.
//
// What the caller must do with a ring, in order: OpenRing; for each event Reserve a place, fill it and Commit it, or
// Put; End after the last event of the run; Close. One front-end uses a ring at a time, and one goroutine a Ring. After
// an error that is ErrClosed or ErrGone, Close, and open the ring of the next run. With a stream: Dial; Send for each
// event, with numbers that grow; Close after the last event of the run. One goroutine does so.
//
// It does not promise that what was committed or sent is safe: Safe and Acked say what is, and Close of a stream waits
// for all. It judges neither data nor event numbers.
package frontend
