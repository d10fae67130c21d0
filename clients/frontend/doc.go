// Package frontend is the side of a front-end: it hands fragments to a readout unit of Ringlet, through a ring in shared
// memory (OpenRing). docs/clients.md has a complete program; clients/c and clients/python are the same for other
// languages.
//
// It stands for the Writer of seed 002 (L8): hand out a place in memory, take an acknowledgement.
//
// What the caller must do, in order: OpenRing; for each event Reserve a place, fill it and Commit it, or Put; End after
// the last event of the run; Close. One front-end uses a ring at a time, and one goroutine a Ring. After an error that is
// ErrClosed or ErrGone, Close, and open the ring of the next run.
//
// It does not promise that what was committed is safe: Safe says what is. It judges neither data nor event numbers.
package frontend
