package local

// The sending half. Pipeline of a remote write, all of it by the caller's goroutine:
//
//	1 Acquire  (parallel)   the peer's table pins the window, by one compare-and-swap in its memory
//	2 copy     (parallel)   straight to its final place, which is the peer's memory; the only time the bytes are touched
//	3 Release  (parallel)   the bytes are the peer's
//	4 post     (sequential, under mu)  a record of where they are, into the peer's mailbox; one store publishes a batch
//	5 Wake     a load; a system call only when the peer sleeps
//	6 Completed
//
// A peer that leaves takes its windows back, and its goodbye may still wait in the ring: who finds none at 1 then looks
// whether it has left, so that this is the end of the link and not a refusal. Nothing here allocates, but for signals
// that find the ring full.

import (
	"fmt"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// Write stores w.Data into a window that the peer has granted, tells the peer, and calls Completed before it returns.
// It waits while the peer's mailbox is full. An error means that there is no outcome: the link is of no use.
func (l *Link) Write(w link.Write) error {
	return l.call(w.Cookie, func() (link.Reason, error) { return l.write(&w, false) })
}

// TryWrite is Write, but where the peer's mailbox is full it does nothing and returns ErrFull.
func (l *Link) TryWrite(w link.Write) error {
	return l.call(w.Cookie, func() (link.Reason, error) {
		if err := l.reserve(); err != nil {
			return 0, err
		}
		return l.write(&w, true)
	})
}

// call takes a step that has an outcome, and calls Completed.
func (l *Link) call(cookie uint64, step func() (link.Reason, error)) error {
	if err := l.beginCall(); err != nil {
		return err
	}
	refused, err := step()
	l.endCall()
	if err != nil {
		return err
	}
	l.complete(cookie, refused)
	return nil
}

// reserve keeps space for the record of a write before its bytes are stored: what is refused must have changed nothing.
func (l *Link) reserve() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if !l.peerJoined {
		return ErrClosed
	}
	ok, err := l.outbox.Promise(refusedSize)
	if err != nil {
		l.err = err
		return err
	}
	if !ok {
		if !l.foundFull { // the next tries meet the same
			l.foundFull = true
			l.stats.StallsQueue++
		}
		return ErrFull
	}
	return nil
}

// complete calls Completed with the error of a reason, which is nil for none.
func (l *Link) complete(cookie uint64, r link.Reason) {
	if r == 0 {
		l.cfg.Handler.Completed(int(l.cfg.Peer), cookie, nil)
		return
	}
	l.cfg.Handler.Completed(int(l.cfg.Peer), cookie, &l.refusedErrs[r])
}

// write stores, and posts with the space that was promised, if that is so.
func (l *Link) write(w *link.Write, promised bool) (link.Reason, error) {
	access := shmem.AccessNwrite
	if w.Dmove {
		access = shmem.AccessDmove
		if w.Deadline != 0 && l.cfg.Now != nil && l.cfg.Now() > w.Deadline {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.stats.WritesExpired++
			l.redeem(promised)
			return link.ReasonExpired, l.err
		}
	}
	if l.peerTable == nil {
		return 0, ErrClosed
	}
	p := [1]link.Placement{{
		Ref:    w.Ref,
		Offset: w.Offset,
		Length: uint32(len(w.Data)),
		Imm:    w.Imm,
	}}
	dst, v := l.peerTable.Acquire(w.Ref, w.Offset, p[0].Length, access)
	if v != 0 && l.outbox.CheckOpen() != nil {
		return 0, ErrPeerClosed
	}
	k := kindRefused
	if v == 0 {
		copy(dst, w.Data)
		l.peerTable.Release(w.Ref)
		k = kindPlaced
	}
	return link.Reason(v), l.postRecord(k, uint8(v), p[:], 1, promised)
}

// redeem ends the promise of a write, with mu held.
func (l *Link) redeem(promised bool) {
	if promised {
		l.outbox.Redeem(refusedSize)
	}
}

// WriteMany stores many pieces, tells the peer of all that are in place with a
// record for each 64, or fewer that are large, and calls Completed once, with the first refusal.
func (l *Link) WriteMany(pieces []link.Piece, cookie uint64) error {
	return l.call(cookie, func() (link.Reason, error) { return l.writeMany(pieces) })
}

func (l *Link) writeMany(pieces []link.Piece) (first link.Reason, err error) {
	if l.peerTable == nil {
		return 0, ErrClosed
	}
	for len(pieces) > 0 && err == nil {
		n := piecesPerRecord(pieces)
		var refused link.Reason
		if refused, err = l.writeBatch(pieces[:n]); first == 0 {
			first = refused
		}
		pieces = pieces[n:]
	}
	if err == nil {
		l.mu.Lock()
		l.countWrites(first == 0, 1)
		l.mu.Unlock()
	}
	return first, err
}

// maxBatchBytes is how much is stored before the peer is told: by then it could have begun with the first.
const maxBatchBytes = 1 << 16

// piecesPerRecord is how many pieces a record tells of: a large one by itself, or the last.
func piecesPerRecord(pieces []link.Piece) (n int) {
	for bytes := 0; n < min(len(pieces), maxPlacements) && bytes < maxBatchBytes; n++ {
		bytes += len(pieces[n].Data)
	}
	return n
}

// writeBatch stores as many pieces as fit a record. It pins all windows, copies all pieces, and only then lets go of
// the windows: a compare-and-swap waits until what was stored before it has reached the memory, which so is waited for
// twice, and not twice for each piece.
func (l *Link) writeBatch(pieces []link.Piece) (first link.Reason, err error) {
	var ps [maxPlacements]link.Placement
	var to [maxPlacements][]byte
	n := 0
	for i := range pieces {
		p := &pieces[i]
		ps[n] = link.Placement{
			Ref:    p.Ref,
			Offset: p.Offset,
			Length: uint32(len(p.Data)),
			Imm:    p.Imm,
		}
		var v shmem.Violation
		if to[i], v = l.peerTable.Acquire(p.Ref, p.Offset, ps[n].Length, shmem.AccessNwrite); v == 0 {
			n++
			continue
		}
		if first == 0 {
			first = link.Reason(v)
		}
		if l.outbox.CheckOpen() != nil {
			err = ErrPeerClosed
		} else {
			err = l.postRecord(kindRefused, uint8(v), ps[n:n+1], 0, false)
		}
		if err != nil {
			break
		}
	}
	for i, dst := range to[:len(pieces)] {
		copy(dst, pieces[i].Data)
	}
	for i := range ps[:n] {
		l.peerTable.Release(ps[i].Ref)
	}
	if n > 0 && err == nil {
		err = l.postRecord(kindPlacedMany, 0, ps[:n], 0, false)
	}
	return first, err
}

// postRecord puts a record of placements into the peer's mailbox and waits while that is full, unless space is
// promised. It ends writes writes.
func (l *Link) postRecord(k kind, reason uint8, ps []link.Placement, writes uint64, promised bool) error {
	for first := true; ; first = false {
		l.mu.Lock()
		l.redeem(promised && first)
		if l.err != nil {
			defer l.mu.Unlock()
			return l.err
		}
		b, ok, err := l.outbox.Allocate(placementsSize(k, len(ps)))
		if ok {
			for i := range ps {
				l.stats.BytesSent += uint64(ps[i].Length)
			}
			l.stats.ChunksSent += uint64(len(ps))
			l.countWrites(reason == 0, writes)
			wake := l.outbox.Publish(encodePlacements(b, k, reason, ps), uint8(k))
			l.foundFull = false
			l.mu.Unlock()
			if wake {
				l.outbox.RecordsBell.ForceWake()
			}
			return nil
		}
		if err != nil {
			l.err = err
		} else if first {
			l.stats.StallsQueue++
		}
		full := l.outbox.Taken()
		l.mu.Unlock()
		if err != nil {
			return err
		}
		l.awaitSpace(full)
	}
}

func (l *Link) countWrites(placed bool, writes uint64) {
	if placed {
		l.stats.WritesCompleted += writes
	} else {
		l.stats.WritesRefused += writes
	}
}

// Waiting for room.
const (
	maxYieldsForSpace = 64 // a receiver that runs empties a full ring of placements in about 100 µs
	sleepTimeout      = time.Second
)

// awaitSpace returns when the peer has read past the position full, when the link is of no use, or for no reason.
func (l *Link) awaitSpace(full uint64) {
	changed := func() bool { return l.outbox.TakenNow() != full || l.closing.Load() }
	for range maxYieldsForSpace {
		if changed() {
			return
		}
		yield()
	}
	bell := l.outbox.SpaceBell
	seq := bell.AddWaiter()
	if !changed() && l.failure() == nil {
		bell.Sleep(seq, sleepTimeout)
	}
	bell.RemoveWaiter()
}

func (l *Link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Fence calls Completed before it returns: every write of this goroutine before it has its outcome.
func (l *Link) Fence(cookie uint64) error {
	return l.call(cookie, func() (link.Reason, error) { return 0, l.failure() })
}

// Signal sends a message of up to link.MaxSignal bytes; it arrives exactly once, in order, or the link is of no use. It
// copies the payload and never waits: what finds the peer's mailbox full is kept and sent when there is room.
func (l *Link) Signal(payload []byte) error {
	if len(payload) > link.MaxSignal {
		return fmt.Errorf("signal to %s is %d bytes long, more than %d", l.cfg.PeerName, len(payload), link.MaxSignal)
	}
	if err := l.beginCall(); err != nil {
		return err
	}
	defer l.endCall()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if !l.peerJoined {
		return ErrClosed
	}
	l.stats.SignalsSent++
	if len(l.spilledSignals) == 0 && l.putSignal(payload) {
		return nil
	}
	if l.spilledSignals = append(l.spilledSignals, append([]byte(nil), payload...)); len(l.spilledSignals) == 1 {
		l.wg.Go(l.drainSpill)
	}
	return nil
}

// putSignal is called under mu. It reports false when the ring is full.
func (l *Link) putSignal(payload []byte) bool {
	b, ok, err := l.outbox.Allocate(len(payload))
	if err != nil {
		l.err = err
	}
	if !ok {
		return err != nil // then it does not matter any more
	}
	copy(b, payload)
	if l.outbox.Publish(0, uint8(kindSignal)) {
		l.outbox.RecordsBell.ForceWake()
	}
	return true
}

// drainSpill sends what was spilled, in order, until nothing is left or the link is of no use.
func (l *Link) drainSpill() {
	for {
		l.mu.Lock()
		n := 0
		for n < len(l.spilledSignals) && l.err == nil && l.putSignal(l.spilledSignals[n]) {
			n++
		}
		if l.spilledSignals = l.spilledSignals[n:]; len(l.spilledSignals) == 0 || l.err != nil {
			l.spilledSignals = nil
			l.mu.Unlock()
			return
		}
		full := l.outbox.Taken()
		l.mu.Unlock()
		l.awaitSpace(full)
	}
}

// Acquire is for loads and stores of the caller's own: the bytes of a window that the peer has granted, in the peer's
// memory, by the rules of shmem.ImportedTable. Release is owed where there is neither a violation nor an error, and
// soon. The peer is told nothing.
func (l *Link) Acquire(r shmem.Ref, off, n uint32, a shmem.Access) ([]byte, shmem.Violation, error) {
	if err := l.beginCall(); err != nil {
		return nil, 0, err
	}
	if l.peerTable == nil {
		l.endCall()
		return nil, 0, ErrClosed
	}
	b, v := l.peerTable.Acquire(r, off, n, a)
	if v != 0 {
		l.endCall()
		if l.outbox.CheckOpen() != nil {
			return nil, 0, ErrPeerClosed
		}
	}
	return b, v, nil
}

// Release ends what Acquire began.
func (l *Link) Release(r shmem.Ref) {
	l.peerTable.Release(r)
	l.endCall()
}
