package shmem

import (
	"fmt"
	"math"
)

// writerCore decides where entries go and which may be overwritten. It has no I/O. It keeps its own positions, and
// never takes them back from shared memory.
type writerCore struct {
	buffer       *ringBuffer
	pos          uint64 // reserved up to here
	head         uint64 // published up to here
	floor        uint64 // free up to here: no reader needs the bytes below
	ordinal      uint32 // of the next header
	outstanding  outstandingPlaces
	lent         []lentEntry // lent entries, committed and not returned yet
	endMarked    bool
	lossyReaders bool // the last scan found lossy readers
}

// maxEntry is the most data of an entry, bytes: with its header at most half of the buffer, so that it fits even if the
// buffer must wrap before it, and within the 32 bits of a stride.
func (r *ringBuffer) maxEntry() int {
	return int(min(r.capacity/2, math.MaxUint32)/entryAlign*entryAlign) - entryHeader
}

func strideOf(n int) uint64 {
	return (entryHeader + uint64(n) + entryAlign - 1) / entryAlign * entryAlign
}

// reserve returns a place for n bytes of data, or false if there is no space.
func (w *writerCore) reserve(n int) (Place, bool, error) {
	r := w.buffer
	switch {
	case w.endMarked:
		return Place{}, false, errEnded
	case n < 0:
		return Place{}, false, errBadEntry
	case n > r.maxEntry():
		return Place{}, false, ErrTooLarge
	}
	stride, pad := strideOf(n), uint64(0)
	if off := w.pos % r.capacity; off+stride > r.capacity {
		pad = r.capacity - off
	}
	if w.pos+pad+stride-w.floor > r.capacity {
		if err := w.refreshFloor(w.pos + pad + stride - r.capacity); err != nil {
			return Place{}, false, err
		}
		if w.pos+pad+stride-w.floor > r.capacity {
			return Place{}, false, nil
		}
	}
	if pad > 0 {
		w.outstanding.finish(w.allocate(pad))
		w.ordinal-- // a pad has no number of its own
	}
	p := Place{
		Data:         r.dataAt(w.pos, uint64(n)),
		reservedSize: n,
		pos:          w.pos,
		ordinal:      w.ordinal,
	}
	p.ticket = w.allocate(stride)
	return p, true, nil
}

// allocate takes the next stride bytes of the buffer, as a pad until an entry is committed there.
func (w *writerCore) allocate(stride uint64) (ticket uint64) {
	*w.buffer.headerAt(w.pos) = header{kind: padType, stride: uint32(stride), ordinal: w.ordinal}
	w.ordinal++
	ticket = w.outstanding.push(w.pos)
	w.pos += stride
	return ticket
}

// commit makes the place an entry of n bytes.
func (w *writerCore) commit(p Place, n int, kind uint32) error {
	if !w.outstanding.contains(p.ticket, p.pos) {
		return errNotOutstanding
	}
	if n < 0 || n > p.reservedSize || kind == padType {
		return errBadEntry
	}
	*w.buffer.headerAt(p.pos) = header{
		length:  uint32(n),
		kind:    kind,
		stride:  uint32(strideOf(p.reservedSize)),
		ordinal: p.ordinal,
	}
	w.finish(p)
	return nil
}

// finish publishes all entries before the first place that is still reserved.
func (w *writerCore) finish(p Place) {
	w.outstanding.finish(p.ticket)
	if front := w.outstanding.front(w.pos); front != w.head {
		w.head = front
		w.buffer.head.Store(front)
		w.buffer.entriesBell.Wake()
	}
}

// maxRefreshTries is how often refreshFloor tries when readers are joining.
const maxRefreshTries = 4

// refreshFloor moves the floor up to where every lossless reader is done; with lossy readers not further than the first
// entry from need on, so that they have as long as possible. In broadcast mode a reader may meanwhile join at the old
// floor. So refreshFloor announces the new floor, and keeps it only if a second scan sees no reader below: either the
// joiner sees the announcement and begins at the new floor, or the scan sees the joiner and the announcement is
// withdrawn.
func (w *writerCore) refreshFloor(need uint64) error {
	for range maxRefreshTries {
		limit, err := w.scanReaders()
		if err == nil && w.lossyReaders {
			limit, err = w.firstHeaderFrom(need, limit)
		}
		if err != nil || limit <= w.floor {
			return err
		}
		// The new floor is stored before any byte below it is overwritten (an exchange orders stores on every processor): a
		// lossy reader looks at the floor after it has copied.
		w.buffer.floor.Swap(limit)
		if w.buffer.mode == Sharing { // a new claim begins at claimedUpTo, which is not below limit
			w.floor = limit
			return nil
		}
		again, err := w.scanReaders()
		if err == nil && again >= limit {
			w.floor = limit
			return nil
		}
		w.buffer.floor.Store(w.floor)
		if err != nil {
			return err
		}
	}
	return nil // the floor stays, so no entry is overwritten too early
}

// scanReaders returns the position below which no lossless reader needs an entry.
func (w *writerCore) scanReaders() (uint64, error) {
	r := w.buffer
	limit, present := w.head, false
	w.lossyReaders = false
	if r.mode == Sharing {
		// Loaded before the tails: a reader sets its tail before it moves claimedUpTo past it.
		limit = r.claimedUpTo.Load()
		if !w.isValidPosition(limit) {
			return 0, w.positionError("next", limit)
		}
	}
	for i := range r.readers {
		state, tail := r.readers[i].state.Load(), r.readers[i].tail.Load()
		if state == readerFree || r.mode == Sharing && tail == tailIdle {
			continue
		}
		if state == readerLossy && r.mode == Broadcast {
			w.lossyReaders = true
			continue
		}
		if state > readerActive {
			return 0, w.corruptBufferError(fmt.Sprintf("state of reader %d", i), uint64(state), "unknown")
		}
		if tail >= w.floor || r.mode == Broadcast && state == readerActive {
			if !w.isValidPosition(tail) {
				return 0, w.positionError(fmt.Sprintf("tail of reader %d", i), tail)
			}
		}
		// Only readers that are about to join or to claim have a lower tail, and these look again.
		limit, present = min(limit, max(tail, w.floor)), true
	}
	if r.mode == Broadcast && !present && !w.lossyReaders {
		// There is no reader: what earlier ones have acknowledged stays acknowledged.
		limit = max(r.departedTail.Load(), w.floor)
		if !w.isValidPosition(limit) {
			return 0, w.positionError("gone", limit)
		}
	}
	return limit, nil
}

// hadReader reports whether the buffer has, or has had, a reader: a reader that leaves its place leaves its pid there.
func (w *writerCore) hadReader() bool {
	for i := range w.buffer.readers {
		if w.buffer.readers[i].pid.Load() != 0 {
			return true
		}
	}
	return false
}

// firstHeaderFrom is the position of the first header from need on, or limit if that is lower. Headers in shared memory
// are checked: a wrong one can only change this position.
func (w *writerCore) firstHeaderFrom(need, limit uint64) (uint64, error) {
	at := w.floor
	for at < need && at < limit {
		h, err := w.buffer.header(at, w.head)
		if err != nil {
			return 0, err
		}
		at += h.strideBytes()
	}
	return min(at, limit), nil
}

// isValidPosition reports whether pos can be a position that the writer must still keep.
func (w *writerCore) isValidPosition(pos uint64) bool {
	return pos >= w.floor && pos <= w.head && pos%entryAlign == 0
}

func (w *writerCore) positionError(what string, pos uint64) error {
	return w.corruptBufferError(what, pos, fmt.Sprintf("not a position in [%d, %d]", w.floor, w.head))
}

func (w *writerCore) corruptBufferError(what string, value uint64, reason string) error {
	return &corruptError{
		Segment: w.buffer.name,
		What:    what,
		Value:   value,
		Reason:  reason,
	}
}

// end marks the end of the run.
func (w *writerCore) end(how uint64) {
	w.endMarked = true
	w.buffer.entryCount.Store(uint64(w.ordinal))
	w.buffer.runState.Store(how)
	w.buffer.entriesBell.Wake()
}

// detachReader removes reader i from the buffer and returns its number of unacknowledged entries. The reader calls it
// for itself, or the writer if the reader is dead.
func (r *ringBuffer) detachReader(i int) (unacked uint64) {
	w := &r.readers[i]
	if delivered, acked := w.delivered.Load(), w.acked.Load(); delivered > acked && w.state.Load() != readerLossy {
		unacked = delivered - acked
		r.entriesLost.Add(unacked)
	}
	if r.mode == Broadcast && w.state.Load() == readerActive {
		tail, gone := w.tail.Load(), r.departedTail.Load()
		for gone < tail && tail <= r.head.Load() && !r.departedTail.CompareAndSwap(gone, tail) {
			gone = r.departedTail.Load()
		}
	}
	w.state.Store(readerFree)
	r.spaceBell.Wake()
	return unacked
}
