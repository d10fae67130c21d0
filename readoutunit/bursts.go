package readoutunit

import (
	"math"
	"slices"

	"ringlet/event/placing"
	"ringlet/transport/link"
)

// A burst is what a readout unit writes to one builder unit at a time: its parts of one MEP or of many. Once it is
// filled it is the network's, until it has its outcome.
type burst struct {
	BU     int
	Places []uint64     // of the transfers, as their Order numbers them
	Pieces []link.Piece // the parts: they go as one write
	Bytes  uint64       // in all parts

	id        int
	lowestMEP uint64 // lowest MEP whose buffer it needs; none once its bytes were moved
	inUse     bool   // it has no outcome
}

// maxBurst is the most parts of a burst: 512 parts of 200 bytes are 11 jumbo datagrams or 70 of an Ethernet, enough to
// fill a GSO buffer of 64 KiB, and little beside the slots of a builder unit (a choice, 2026-11-21).
const maxBurst = 512

// burstsPerBU bounds how far a readout unit writes to one builder unit ahead of the responses: beyond it the link to
// that is full. It is far below the requests that a link queues, so that no write waits for a queue.
const burstsPerBU = 64

// burstPool is the pure core of what is under way: which bursts have no outcome yet, and which MEPs they need.
// It does no I/O and takes no locks; its owner calls it under one.
//
//	open ─► add … ─► (write) ─► complete ─► lowestNeeded: what is below may go
type burstPool struct {
	all           []*burst
	free          []*burst // the last used on top: its memory is in the cache
	inUseByBU     []int    // by builder unit: bursts in use
	releasedBelow uint64   // every MEP below has its outcome, or was put aside
}

// newBurstPool makes the core for bus builder units.
func newBurstPool(bus int) *burstPool { return &burstPool{inUseByBU: make([]int, bus)} }

// canOpen tells that a burst can be opened for a builder unit. Without, so many are under way to it that one must
// complete first. Those to others do not matter: one that answers nothing takes only its own.
func (s *burstPool) canOpen(bu int) bool { return s.inUseByBU[bu] < burstsPerBU }

// open gives an empty burst for a builder unit. There must be room.
func (s *burstPool) open(bu int) *burst {
	var b *burst
	if n := len(s.free); n > 0 {
		b = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		b = &burst{id: len(s.all)}
		s.all = append(s.all, b)
	}
	b.BU, b.Bytes, b.lowestMEP, b.inUse = bu, 0, math.MaxUint64, true
	b.Places, b.Pieces = b.Places[:0], b.Pieces[:0]
	s.inUseByBU[bu]++
	return b
}

// add puts the part of one of its transfers into an open burst.
func (b *burst) add(t *Transfer, part []byte) {
	var p *link.Piece
	b.Pieces, p = extend(b.Pieces)
	p.Ref, p.Imm, p.Data = t.Ref, placing.Immediate(t.MEP, t.Attempt, t.Slot), part
	b.Bytes += uint64(len(part))
	b.lowestMEP = min(b.lowestMEP, t.MEP)
}

// extend makes a list longer by an element, which holds anything, and gives that to be filled in where it is. What is
// put together first and appended then is read right after it was written in smaller parts, for which a processor waits
// 10 ns.
func extend[T any](list []T) ([]T, *T) {
	if len(list) == cap(list) {
		list = slices.Grow(list, 1)
	}
	list = list[:len(list)+1]
	return list, &list[len(list)-1]
}

// complete takes the outcome of the burst with that number, the cookie of its write; what is in that stays readable
// until the next open. It refuses one that was not under way.
func (s *burstPool) complete(cookie uint64) (*burst, error) {
	if cookie >= uint64(len(s.all)) || !s.all[cookie].inUse {
		return nil, &notUnderWayError{cookie}
	}
	b := s.all[cookie]
	s.recycle(b)
	return b, nil
}

func (s *burstPool) recycle(b *burst) {
	b.inUse = false
	s.inUseByBU[b.BU]--
	s.free = append(s.free, b)
}

// abandon gives up what was sent to a builder unit: it will have no outcome any more.
func (s *burstPool) abandon(bu int) {
	for _, b := range s.all {
		if b.BU == bu && b.inUse {
			s.recycle(b)
		}
	}
}

// release says that every MEP below the given one has its outcome, or was put aside.
func (s *burstPool) release(below uint64) { s.releasedBelow = max(s.releasedBelow, below) }

// forEachOvertaken calls each for every burst under way that needs buffers of MEPs below the watermark.
func (s *burstPool) forEachOvertaken(each func(b *burst)) {
	for _, b := range s.all {
		if b.inUse && b.lowestMEP < s.releasedBelow {
			each(b)
		}
	}
}

// markMoved says that the bytes of a burst lie elsewhere: it needs no buffers any more.
func (s *burstPool) markMoved(cookie uint64) { s.all[cookie].lowestMEP = math.MaxUint64 }

// lowestNeeded is the lowest MEP that is still needed: it has no outcome yet, or the link may still send it again,
// since the response of a write may come after the outcome of the MEP. It looks at every burst: some ten, each of
// hundreds of parts.
func (s *burstPool) lowestNeeded() uint64 {
	lowest := s.releasedBelow
	for _, b := range s.all {
		if b.inUse {
			lowest = min(lowest, b.lowestMEP)
		}
	}
	return lowest
}
