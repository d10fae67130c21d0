package local

// The receiving half. Pipeline, all of it by one goroutine:
//
//	1 next     (sequential)  a record from this node's mailbox, checked and copied
//	2 Handler  (sequential)  called with the record's event; the bytes of writes are already in place
//	3 release  (sequential)  once per batch: the sender may use the space again
//	4 yield    (sequential)  after a few looks: the goroutines that the handler has woken run
//	5 await    (sequential)  poll for a while, then sleep; only a sleeper costs the sender a system call
//
// Nothing here allocates.

import (
	"runtime"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
)

const (
	// recordsPerBatch is how many records are read before their space goes back to the sender.
	recordsPerBatch = 256
	// spinLooks is how many times the receiver looks into the mailbox, with pauses, before it yields: about 1 µs.
	spinLooks = 32
	// looksAfterNotify is how many times the receiver looks into the mailbox before it yields to the goroutines that the
	// handler has woken. Without these looks they would run sooner, but a pair of units was slower by 5 to 17 %
	// (docs/design/012-local.md).
	looksAfterNotify = 8
	// netYieldEvery: in each netYieldEvery-th of these yields, goroutines that wait for the network run as well.
	netYieldEvery = 64
	// idleYields is how often a receiver without Spin yields before it sleeps, so that a sender on the same core runs.
	idleYields = 2
)

func (l *Link) receive() {
	notified, turns := false, 0 // the handler has woken goroutines that have not run since; the number of yields to them
	for !l.closing.Load() {
		n, err := l.receiveBatch()
		if err != nil {
			l.fail(err)
			l.cfg.OnDown(err)
			return
		}
		switch {
		case n > 0:
			notified = !l.toSelf // a receiver of its own node's records soon sleeps, and all others run then
		case notified:
			notified = false
			if !l.poll(looksAfterNotify) {
				turns++
				if turns%netYieldEvery == 0 { // goroutines may also wait for the network
					yield()
				} else {
					runtime.Gosched() // cheaper: the handler has woken only goroutines of this process
				}
			}
		default:
			l.awaitRecord()
		}
	}
}

// receiveBatch reads a batch of records, calls the handler for each, and returns their number.
func (l *Link) receiveBatch() (n int, err error) {
	for n < recordsPerBatch && err == nil {
		var m *message
		if m, err = l.inbox.next(); m == nil {
			break
		}
		n++
		err = l.handleMessage(m)
	}
	if n > 0 {
		l.inbox.ReleaseAll()
	}
	return n, err
}

// handleMessage counts a message, then calls the handler: when the handler learns of a run's last write, it is counted.
func (l *Link) handleMessage(m *message) error {
	h, peer := l.cfg.Handler, int(l.cfg.Peer)
	switch m.kind {
	case kindPlaced:
		l.placementsReceived.Add(1)
		l.bytesReceived.Add(uint64(m.placements[0].Length))
		l.cfg.Table.AddWritten(m.placements[0].Ref, m.placements[0].Length)
		h.Placed(peer, m.placements[0])
	case kindPlacedMany:
		var n uint64
		for i := range m.placements {
			n += uint64(m.placements[i].Length)
			l.cfg.Table.AddWritten(m.placements[i].Ref, m.placements[i].Length)
		}
		l.placementsReceived.Add(uint64(len(m.placements)))
		l.bytesReceived.Add(n)
		h.PlacedMany(peer, m.placements)
	case kindRefused:
		l.refusalsReceived.Add(1)
		if !l.toSelf { // in a link to itself the table has counted it
			l.cfg.Table.CountViolation(shmem.Violation(m.reason))
		}
		h.Refused(peer, m.placements[0], &link.RefusedError{Peer: "this node", Reason: link.Reason(m.reason)})
	case kindSignal:
		l.signalsReceived.Add(1)
		h.Signal(peer, m.signal)
	case kindGoodbye:
		return ErrPeerClosed
	}
	return nil
}

// awaitRecord returns when a record is in the mailbox or the link is closing. It may also return for no reason.
func (l *Link) awaitRecord() {
	if l.toSelf { // its wake-up needs no system call
		l.sleep()
		return
	}
	var until time.Time
	for i := 0; ; i++ {
		if l.poll(spinLooks) || l.closing.Load() {
			return
		}
		switch {
		case l.cfg.Spin <= 0:
			if i >= idleYields {
				l.sleep()
				return
			}
		case until.IsZero():
			until = time.Now().Add(l.cfg.Spin)
		case time.Now().After(until):
			l.sleep()
			return
		}
		yield()
	}
}

// poll reports whether a record is in the mailbox, after at most n looks.
func (l *Link) poll(n int) bool {
	for range n {
		if l.inbox.HasRecord() {
			return true
		}
		pause(1)
	}
	return false
}

func (l *Link) sleep() {
	l.inbox.ArmWake()
	bell := l.inbox.RecordsBell
	seq := bell.AddWaiter()
	if !l.inbox.HasRecord() && !l.closing.Load() {
		bell.Sleep(seq, sleepTimeout)
	}
	bell.RemoveWaiter()
}
