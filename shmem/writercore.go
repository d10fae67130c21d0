package shmem

import (
	"fmt"
	"math"
)

// writerCore decides where entries go and what may be overwritten. It has no I/O: it works on
// the buffer and its own positions, and believes nothing of its own from shared memory.
type writerCore struct {
	buffer       *ringBuffer
	pos          uint64 // reserved up to here
	head         uint64 // published up to here
	floor        uint64 // free up to here: what no reader can still want
	ordinal      uint32 // of the next header
	outstanding  outstandingPlaces
	lent         []lentEntry // published or about to be, and not returned
	endMarked    bool
	lossyReaders bool // the last scan saw readers that may lose
}

// maxEntry is the largest entry's data, bytes: with its header at most half of the buffer, so that it
// fits even when the buffer must wrap before it, and within the 32 bits of a stride.
func (r *ringBuffer) maxEntry() int {
	return int(min(r.capacity/2, math.MaxUint32)/entryAlign*entryAlign) - entryHeader
}

func strideOf(n int) uint64 {
	return (entryHeader + uint64(n) + entryAlign - 1) / entryAlign * entryAlign
}

// reserve hands out a place for n bytes of data, or says that there is no room.
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
		w.ordinal-- // it is none
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

// finish publishes what is complete up to the first place still out.
func (w *writerCore) finish(p Place) {
	w.outstanding.finish(p.ticket)
	if front := w.outstanding.front(w.pos); front != w.head {
		w.head = front
		w.buffer.head.Store(front)
		w.buffer.entriesBell.Wake()
	}
}

// maxRefreshTries bounds the tries of refresh to be of one mind with readers that are joining.
const maxRefreshTries = 4

// refreshFloor moves the floor up to what every reader is done with that may not lose; where there are readers that
// may, not further than the first entry from need on, so that they have as long as possible. In broadcast mode a reader
// may be joining at the old floor meanwhile. So the new floor is announced first, and holds only
// if no reader is seen below it afterwards: either the joiner sees the announcement and takes the
// new floor, or this scan sees the joiner and takes the announcement back.
func (w *writerCore) refreshFloor(need uint64) error {
	for range maxRefreshTries {
		limit, err := w.scanReaders()
		if err == nil && w.lossyReaders {
			limit, err = w.firstHeaderFrom(need, limit)
		}
		if err != nil || limit <= w.floor {
			return err
		}
		// The new floor is there before anything is written below it: an exchange orders the stores on every processor,
		// and who may lose looks at the floor after copying.
		w.buffer.floor.Swap(limit)
		if w.buffer.mode == Sharing { // whoever claims anew begins at next, which is not below
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
	return nil // the floor stays: nothing is overwritten too early
}

// scanReaders returns the position below which no reader wants anything.
func (w *writerCore) scanReaders() (uint64, error) {
	r := w.buffer
	limit, present := w.head, false
	w.lossyReaders = false
	if r.mode == Sharing {
		// Before the tails: a reader sets its tail before it moves next past it.
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
		// Lower are only readers that are about to join or to claim, and will look again.
		limit, present = min(limit, max(tail, w.floor)), true
	}
	if r.mode == Broadcast && !present && !w.lossyReaders {
		// Nobody is there: what those who left had acknowledged stays acknowledged.
		limit = max(r.departedTail.Load(), w.floor)
		if !w.isValidPosition(limit) {
			return 0, w.positionError("left", limit)
		}
	}
	return limit, nil
}

// hadReader says whether a reader is there, or was: who leaves a place leaves its pid there.
func (w *writerCore) hadReader() bool {
	for i := range w.buffer.readers {
		if w.buffer.readers[i].pid.Load() != 0 {
			return true
		}
	}
	return false
}

// firstHeaderFrom is the position of the first header from need on, or limit if that comes first. Headers stand in
// shared memory: they are checked, and lead nowhere but to another limit.
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

// isValidPosition says whether a reader's word can be a position that the writer has still to keep.
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

// detachReader takes reader i out of the buffer and returns how many entries it held unacknowledged. It
// is called by the reader itself, or by the writer when the reader is dead.
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
