package shmring

import "ringlet/shmem/ring"

// frontendWatch is what is known of the front-ends of a ring: they attach one after another.
type frontendWatch struct {
	attachedCount uint64 // how many have attached
	lastGone      bool   // the last of them went away without the end of its run
}

// update takes what the ring says now: the state and the number of attachments, and whether somebody has the lock of a
// producer, which was asked after before the two were loaded. It gives how many came and how many went.
func (w *frontendWatch) update(s ring.State, attached uint64, locked bool) (came, went uint64) {
	// a number that moves back is counted modulo 2^64, as every number that makes no sense
	if attached != w.attachedCount {
		came = attached - w.attachedCount
		went = came
		if w.attachedCount == 0 || w.lastGone {
			went--
		}
		// The lock was asked after when another one may have been there.
		w.attachedCount, w.lastGone, locked = attached, false, true
	}
	lost := s == ring.Detached || s == ring.Attached && !locked
	if lost && !w.lastGone && w.attachedCount > 0 {
		w.lastGone = true
		went++
	}
	return came, went
}
