package shmring

import "ringlet/shmem/fragring"

// watch is what is known of the front-ends of a ring: they attach one after another.
type watch struct {
	attached uint64 // how many have attached
	gone     bool   // the last of them went away without the end of its run
}

// step takes what the ring says now: the state and the number of attachments, and whether somebody has the lock of a
// producer, which was asked after before the two were loaded. It gives how many came and how many went.
func (w *watch) step(s fragring.State, attached uint64, locked bool) (came, went uint64) {
	if attached != w.attached { // a number that moves back is counted modulo 2^64, as every number that makes no sense
		came = attached - w.attached
		went = came
		if w.attached == 0 || w.gone {
			went--
		}
		// The lock was asked after when another one may have been there.
		w.attached, w.gone, locked = attached, false, true
	}
	lost := s == fragring.Detached || s == fragring.Attached && !locked
	if lost && !w.gone && w.attached > 0 {
		w.gone = true
		went++
	}
	return came, went
}
