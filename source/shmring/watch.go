package shmring

import "ringlet/shmem/ring"

// frontendWatch is what the feed has seen of the front-ends of a ring, which attach one after another.
type frontendWatch struct {
	attachedCount uint64 // how many have attached
	lastGone      bool   // the last of them went away without the end of its run
}

// update compares the ring's present state and number of attachments with the last ones. locked says whether a process
// held the producer's lock, checked before the two were loaded. It returns how many front-ends came and went.
func (w *frontendWatch) update(s ring.State, attached uint64, locked bool) (came, went uint64) {
	// a counter that went back is counted modulo 2^64, like any implausible value
	if attached != w.attachedCount {
		came = attached - w.attachedCount
		went = came
		if w.attachedCount == 0 || w.lastGone {
			went--
		}
		// The lock was checked when the front-end before may still have been there.
		w.attachedCount, w.lastGone, locked = attached, false, true
	}
	lost := s == ring.Detached || s == ring.Attached && !locked
	if lost && !w.lastGone && w.attachedCount > 0 {
		w.lastGone = true
		went++
	}
	return came, went
}
