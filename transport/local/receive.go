package local

// The receiving half. Pipeline, all of it by one goroutine:
//
//	1 next     (sequential)  a record out of this node's mailbox, checked and copied
//	2 Handler  (sequential)  what it says; the bytes of writes have long been in place
//	3 release  (sequential)  once per batch: the space is the sender's again
//	4 yield    (sequential)  look shortly, then who was told of a batch goes on
//	5 await    (sequential)  look for a while, then sleep; only a sleeper costs the sender a system call
//
// Nothing here allocates.

import (
	"runtime"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
)

const (
	// recordsPerBatch is how many records are read before their room is given back.
	recordsPerBatch = 256
	// spinLooks is how often the mailbox is looked at, with a pause between, before others may go on: about 1 µs.
	spinLooks = 32
	// looksAfterNotify is how often the mailbox is looked at before those who were told something may go on. Without a
	// look they would go on sooner, but a pair of units was slower by 5 to 17 % (docs/design/012-local.md).
	looksAfterNotify = 8
	// netYieldEvery is how often those who were told go on before those, too, who wait for the network.
	netYieldEvery = 64
	// idleYields is how often a receiver that shall not spin yields before it sleeps, so that a sender on the same core
	// goes on.
	idleYields = 2
)

func (l *Link) receive() {
	notified, turns := false, 0 // those who were told something have not yet gone on; how often they were let
	for !l.closing.Load() {
		n, err := l.receiveBatch()
		if err != nil {
			l.fail(err)
			l.cfg.OnDown(err)
			return
		}
		switch {
		case n > 0:
			notified = !l.toSelf // who sends to itself soon sleeps, and then all others go on
		case notified:
			notified = false
			if !l.poll(looksAfterNotify) {
				turns++
				if turns%netYieldEvery == 0 { // others wait for the network
					yield()
				} else {
					runtime.Gosched() // costs less: only goroutines of this process were told
				}
			}
		default:
			l.awaitRecord()
		}
	}
}

// receiveBatch reads a batch of records and tells the handler. It returns how many there were.
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

// handleMessage counts a message and passes it on, in this order: who hears of a run's last write finds it counted.
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
		if !l.toSelf { // else the table has counted it by itself
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

// awaitRecord returns when something is in the mailbox, when the link is closing, or for no reason.
func (l *Link) awaitRecord() {
	if l.toSelf { // to be woken costs little: no kernel has a part in it
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

// poll reports whether something is in the mailbox, after n looks at most.
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
