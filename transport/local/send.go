package local

// The sending half. Pipeline of a remote write, all of it by the caller's goroutine:
//
//	1 Acquire  (parallel)   the peer's table pins the window, by one compare-and-swap in its memory
//	2 copy     (parallel)   straight to the final place in the peer's memory; the only copy of the bytes
//	3 Release  (parallel)   unpins the window
//	4 post     (sequential, under mu)  a record of the placement, into the peer's mailbox; one store publishes a batch
//	5 Wake     a load; a system call only when the peer sleeps
//	6 Completed
//
// A peer that closes revokes its windows, and its goodbye may still wait in the ring. So if Acquire fails, the caller
// checks whether the peer has closed: then the link is over, and the write was not refused. Nothing here allocates,
// except for signals that find the ring full.

import (
	"fmt"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// Write stores w.Data into a window that the peer has granted, posts a record to the peer, and calls Completed before
// it returns. It waits while the peer's mailbox is full. After an error there is no Completed, and the link is
// unusable.
func (l *Link) Write(w link.Write) error {
	return l.call(w.Cookie, func() (link.Reason, error) { return l.write(&w, false) })
}

// TryWrite is Write without waiting: if the peer's mailbox is full, it stores nothing and returns ErrFull.
func (l *Link) TryWrite(w link.Write) error {
	return l.call(w.Cookie, func() (link.Reason, error) {
		if err := l.reserve(); err != nil {
			return 0, err
		}
		return l.write(&w, true)
	})
}

// call runs a step that has an outcome, and calls Completed with it.
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

// reserve promises space for the record of a write before its bytes are stored: a write that returns ErrFull must have
// changed nothing.
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
		if !l.foundFull { // later tries are the same wait
			l.foundFull = true
			l.stats.StallsQueue++
		}
		return ErrFull
	}
	return nil
}

// complete calls Completed with the error for a reason; nil for 0.
func (l *Link) complete(cookie uint64, r link.Reason) {
	if r == 0 {
		l.cfg.Handler.Completed(int(l.cfg.Peer), cookie, nil)
		return
	}
	l.cfg.Handler.Completed(int(l.cfg.Peer), cookie, &l.refusedErrs[r])
}

// write stores the bytes and posts a record; promised says that reserve has promised its space.
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

// redeem ends the promise of a write. The caller holds mu.
func (l *Link) redeem(promised bool) {
	if promised {
		l.outbox.Redeem(refusedSize)
	}
}

// WriteMany stores many pieces, posts a record for each 64 pieces in place, or fewer if they are large, and calls
// Completed once, with the first refusal.
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

// maxBatchBytes is how many bytes are stored before the peer gets a record, so that it can begin with the first.
const maxBatchBytes = 1 << 16

// piecesPerRecord is the number of pieces for the next record: up to maxPlacements, and none after maxBatchBytes.
func piecesPerRecord(pieces []link.Piece) (n int) {
	for bytes := 0; n < min(len(pieces), maxPlacements) && bytes < maxBatchBytes; n++ {
		bytes += len(pieces[n].Data)
	}
	return n
}

// writeBatch stores the pieces of one record. It pins all windows, copies all pieces, and only then releases the
// windows: each compare-and-swap waits until earlier stores have reached the memory. This order waits twice, not twice
// per piece.
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

// postRecord puts a record of placements into the peer's mailbox, and waits while the mailbox is full, unless space is
// promised. writes is the number of writes that the record completes.
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

// Waiting for space.
const (
	maxYieldsForSpace = 64 // a running receiver empties a full ring of placements in about 100 µs
	sleepTimeout      = time.Second
)

// awaitSpace returns when the peer has read past the position full, or the link is over. It may also return for no
// reason.
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

// Fence calls Completed before it returns: all earlier writes of this goroutine have their outcome.
func (l *Link) Fence(cookie uint64) error {
	return l.call(cookie, func() (link.Reason, error) { return 0, l.failure() })
}

// Signal sends a message of up to link.MaxSignal bytes; it arrives exactly once and in order, or the link ends. It
// copies the payload and never waits: if the peer's mailbox is full, it keeps the signal and sends it later.
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

// putSignal reports false when the ring is full. The caller holds mu.
func (l *Link) putSignal(payload []byte) bool {
	b, ok, err := l.outbox.Allocate(len(payload))
	if err != nil {
		l.err = err
	}
	if !ok {
		return err != nil // the link has failed, and the signal is dropped
	}
	copy(b, payload)
	if l.outbox.Publish(0, uint8(kindSignal)) {
		l.outbox.RecordsBell.ForceWake()
	}
	return true
}

// drainSpill sends spilled signals in order, until none is left or the link is over.
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

// Acquire returns n bytes of a granted window in the peer's memory, for the caller's own loads and stores, by the rules
// of shmem.ImportedTable. If it returns neither a violation nor an error, the caller must soon call Release. The peer
// gets no record.
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

// Release unpins what Acquire has pinned.
func (l *Link) Release(r shmem.Ref) {
	l.peerTable.Release(r)
	l.endCall()
}
