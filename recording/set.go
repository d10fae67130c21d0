package recording

import (
	"iter"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// A MEPSet is which MEPs an output holds: their numbers, and an exception for each that is no first attempt at a whole
// MEP. MEP k has the events from k × packing on, so that a set of MEPs tells which events are there. A set is not safe
// for concurrent use. Its numbers take a bit each where they are dense, and some 200 bytes where they are far apart; an
// exception takes some 40 bytes. The MEPs of live data have as many events as came in time: a set of them knows the
// events of each, in 640 bytes for each 64 MEPs that it has any of. So it takes little, however far apart the numbers
// of a file are.
type MEPSet struct {
	packing    uint32
	live       bool
	numbers    *roaring64.Bitmap
	exceptions map[uint64]exception // by MEP
	liveWords  map[uint64]*liveWord // of live data, by MEP / 64
	eventCount uint64
}

// firstAttempt is the attempt that TagNet gives the first one.
const firstAttempt = 1

// exception is what sets a MEP apart from the first attempt at a whole one.
type exception struct{ attempt, events uint32 }

// liveWord is the events of 64 MEPs of live data.
type liveWord struct {
	firstEvents [64]uint64
	eventCounts [64]uint16
}

// NewMEPSet makes an empty set of MEPs that have packing events each, or fewer where an entry says so.
func NewMEPSet(packing int) *MEPSet {
	return &MEPSet{
		packing:    uint32(packing),
		numbers:    roaring64.New(),
		exceptions: map[uint64]exception{},
		liveWords:  map[uint64]*liveWord{},
	}
}

// NewLiveMEPSet makes an empty set of MEPs that have any events, in the order of the MEPs, and at most packing each.
func NewLiveMEPSet(packing int) *MEPSet {
	s := NewMEPSet(packing)
	s.live = true
	return s
}

// Add puts e's MEP into the set. copied says that it was there before; of two copies the higher attempt counts, and of
// equal ones the first.
func (s *MEPSet) Add(e Entry) (copied bool) {
	if copied = !s.numbers.CheckedAdd(e.MEP); copied {
		before := s.find(e.MEP)
		if before.Attempt >= e.Attempt {
			return true
		}
		s.eventCount -= uint64(before.Events)
	}
	s.eventCount += uint64(e.Events)
	if s.live {
		w := s.liveWords[e.MEP/64]
		if w == nil {
			w = &liveWord{}
			s.liveWords[e.MEP/64] = w
		}
		w.firstEvents[e.MEP%64], w.eventCounts[e.MEP%64] = e.FirstEvent, uint16(e.Events)
	}
	if s.isException(&e) {
		s.exceptions[e.MEP] = exception{e.Attempt, e.Events}
	} else {
		delete(s.exceptions, e.MEP)
	}
	return copied
}

// isException says that a MEP is no first attempt at a whole one.
func (s *MEPSet) isException(e *Entry) bool {
	return e.Attempt != firstAttempt || !s.live && e.Events != s.packing
}

// find tells what is known of a MEP that is in the set, as an entry without a place.
func (s *MEPSet) find(mep uint64) Entry {
	e := Entry{MEP: mep, FirstEvent: mep * uint64(s.packing), Events: s.packing, Attempt: firstAttempt}
	if w := s.liveWords[mep/64]; w != nil {
		e.FirstEvent, e.Events = w.firstEvents[mep%64], uint32(w.eventCounts[mep%64])
	}
	if x, ok := s.exceptions[mep]; ok {
		e.Attempt, e.Events = x.attempt, x.events
	}
	return e
}

// entries ranges over the MEPs in order, as find tells them.
func (s *MEPSet) entries(yield func(Entry) bool) {
	for mep := range roaring64.Values(s.numbers) {
		if !yield(s.find(mep)) {
			return
		}
	}
}

// Union adds what is in o, which it does not change, and tells how many MEPs were in both. Both sets need the same
// packing, and both be of live data or neither.
func (s *MEPSet) Union(o *MEPSet) (copies uint64) {
	copies = s.numbers.AndCardinality(o.numbers)
	if s.live {
		for e := range o.entries {
			s.Add(e)
		}
		return copies
	}
	for mep := range s.exceptions {
		if o.Contains(mep) {
			s.Add(o.find(mep))
		}
	}
	for mep := range o.exceptions {
		s.Add(o.find(mep))
	}
	before := s.MEPs()
	s.numbers.Or(o.numbers)
	s.eventCount += (s.MEPs() - before) * uint64(s.packing)
	return copies
}

// MarkSet puts the numbers of the MEPs of o in, for who asks for numbers alone: that takes a bit for each, whatever o
// is of. It may be of other data than s is.
func (s *MEPSet) MarkSet(o *MEPSet) { s.numbers.Or(o.numbers) }

// MarkMEP marks one MEP.
func (s *MEPSet) MarkMEP(mep uint64) { s.numbers.Add(mep) }

// Contains tells whether the MEP is in the set.
func (s *MEPSet) Contains(mep uint64) bool { return s.numbers.Contains(mep) }

// highestAttempt is the highest attempt at the MEP that was added, and whether it is in the set at all.
func (s *MEPSet) highestAttempt(mep uint64) (attempt uint32, ok bool) {
	if !s.Contains(mep) {
		return 0, false
	}
	return s.find(mep).Attempt, true
}

// Packing is the number of events of a whole MEP.
func (s *MEPSet) Packing() int { return int(s.packing) }

// MEPs is how many there are, each once.
func (s *MEPSet) MEPs() uint64 { return s.numbers.GetCardinality() }

// Events is how many events they have.
func (s *MEPSet) Events() uint64 { return s.eventCount }

// Gaps is which events are not there.
type Gaps struct {
	EventCount     uint64  `json:"events"`         // in all
	Ranges         []Range `json:"ranges"`         // the first of them
	UnlistedRanges uint64  `json:"more,omitempty"` // ranges beyond those listed
}

// add counts the events from one to before the other, and names them while fewer than limit ranges are listed.
func (g *Gaps) add(from, to uint64, limit int) {
	g.EventCount += to - from
	if last := len(g.Ranges) - 1; last >= 0 && g.UnlistedRanges == 0 && g.Ranges[last].To+1 == from {
		g.Ranges[last].To = to - 1
		return
	}
	if len(g.Ranges) == limit {
		g.UnlistedRanges++
		return
	}
	g.Ranges = append(g.Ranges, Range{From: from, To: to - 1})
}

// missingRanges gives the stretches of the events 0 to before triggered that are not in the set, in order.
//
// Of live data, whose ids begin and go on as they like, they are stretches between MEPs that are in the set and are no
// neighbours. Numbers that front-ends left out may be among them, but no more events than there can be; those behind
// the last MEP are only known by their number.
func (s *MEPSet) missingRanges(triggered uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(from, to uint64) bool) {
		mep, next, remaining := uint64(0), uint64(0), triggered-min(triggered, s.eventCount)
		for e := range s.entries {
			if e.Events == 0 {
				continue
			}
			from, to := next, min(e.FirstEvent, triggered)
			if s.live {
				from, to = e.FirstEvent, e.FirstEvent
				if e.MEP > mep {
					from -= min(remaining, to-min(to, next))
				}
			}
			if from < to {
				remaining -= min(remaining, to-from)
				if !yield(from, to) {
					return
				}
			}
			mep, next = e.MEP+1, e.FirstEvent+uint64(e.Events)
		}
		end := triggered
		if s.live {
			end = next + remaining
		}
		if next < end {
			yield(next, end)
		}
	}
}

// Missing tells which of the events 0 to before triggered are not in the set; limit bounds how many ranges are listed.
func (s *MEPSet) Missing(triggered uint64, limit int) Gaps {
	g := Gaps{Ranges: []Range{}}
	for from, to := range s.missingRanges(triggered) {
		g.add(from, to, limit)
	}
	return g
}

// EndEvent is the event id behind the last event of the set; of live data the number of events in it.
func (s *MEPSet) EndEvent() uint64 {
	if s.live {
		return s.eventCount
	}
	for mep := range roaring64.Backward(s.numbers) {
		if e := s.find(mep); e.Events > 0 {
			return e.FirstEvent + uint64(e.Events)
		}
	}
	return 0
}

// countBeyond is how many events of the set are not below triggered.
func (s *MEPSet) countBeyond(triggered uint64) (n uint64) {
	if s.live {
		return s.eventCount - min(s.eventCount, triggered)
	}
	for mep := range roaring64.Backward(s.numbers) {
		e := s.find(mep)
		if end := e.FirstEvent + uint64(e.Events); end > triggered {
			n += end - max(e.FirstEvent, triggered)
		}
		if e.FirstEvent < triggered {
			break
		}
	}
	return n
}
