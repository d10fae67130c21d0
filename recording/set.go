package recording

import (
	"iter"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// A MEPSet is the set of MEPs in an output: their numbers, and an exception for each MEP that is not a first attempt
// with packing events. MEP k has the events from k × packing on, so that the set also tells which events are there. A
// set is not safe for concurrent use. A number takes a bit if numbers are dense, and some 200 bytes if they are far
// apart; an exception takes some 40 bytes. MEPs of live data may have any number of events up to packing: their set
// stores the events of each MEP, in 640 bytes for each aligned group of 64 MEPs with a MEP in it.
type MEPSet struct {
	packing    uint32
	live       bool
	numbers    *roaring64.Bitmap
	exceptions map[uint64]exception // by MEP
	liveWords  map[uint64]*liveWord // of live data, by MEP / 64
	eventCount uint64
}

// firstAttempt is the number of TagNet's first attempt at a MEP.
const firstAttempt = 1

// exception is the attempt and the number of events of a MEP in which they differ from a first attempt at a whole one.
type exception struct{ attempt, events uint32 }

// liveWord is the events of 64 MEPs of live data.
type liveWord struct {
	firstEvents [64]uint64
	eventCounts [64]uint16
}

// NewMEPSet returns an empty set of MEPs with packing events each, or fewer if an entry says so.
func NewMEPSet(packing int) *MEPSet {
	return &MEPSet{
		packing:    uint32(packing),
		numbers:    roaring64.New(),
		exceptions: map[uint64]exception{},
		liveWords:  map[uint64]*liveWord{},
	}
}

// NewLiveMEPSet returns an empty set of MEPs of live data: MEPs in order have events in order, at most packing each.
func NewLiveMEPSet(packing int) *MEPSet {
	s := NewMEPSet(packing)
	s.live = true
	return s
}

// Add adds e's MEP to the set. copied says that it was there before; of two copies the one with the higher attempt
// counts, and of equal ones the first.
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

// isException says that a MEP is not the first attempt at a whole one.
func (s *MEPSet) isException(e *Entry) bool {
	return e.Attempt != firstAttempt || !s.live && e.Events != s.packing
}

// find returns a MEP of the set as an entry without a place.
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

// entries ranges over the MEPs in order, as find returns them.
func (s *MEPSet) entries(yield func(Entry) bool) {
	for mep := range roaring64.Values(s.numbers) {
		if !yield(s.find(mep)) {
			return
		}
	}
}

// Union adds the MEPs of o, which it does not change, and returns how many were in both. Both sets must have the same
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

// MarkSet adds only the numbers of o's MEPs, a bit for each, for callers that use nothing but Contains. o may be of
// other data than s.
func (s *MEPSet) MarkSet(o *MEPSet) { s.numbers.Or(o.numbers) }

// MarkMEP marks one MEP.
func (s *MEPSet) MarkMEP(mep uint64) { s.numbers.Add(mep) }

// Contains says whether the MEP is in the set.
func (s *MEPSet) Contains(mep uint64) bool { return s.numbers.Contains(mep) }

// highestAttempt returns the highest attempt at the MEP that was added, and whether it is in the set.
func (s *MEPSet) highestAttempt(mep uint64) (attempt uint32, ok bool) {
	if !s.Contains(mep) {
		return 0, false
	}
	return s.find(mep).Attempt, true
}

// Packing returns the number of events of a whole MEP.
func (s *MEPSet) Packing() int { return int(s.packing) }

// MEPs returns how many MEPs there are, each counted once.
func (s *MEPSet) MEPs() uint64 { return s.numbers.GetCardinality() }

// Events returns how many events the MEPs have.
func (s *MEPSet) Events() uint64 { return s.eventCount }

// Gaps are the events that are not there.
type Gaps struct {
	EventCount     uint64  `json:"events"`         // in all
	Ranges         []Range `json:"ranges"`         // the first of them
	UnlistedRanges uint64  `json:"more,omitempty"` // ranges beyond those listed
}

// add counts the events from `from` to before `to`, and lists their range while fewer than limit ranges are listed.
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

// missingRanges ranges over the events 0 to before triggered that are not in the set, in order.
//
// Event ids of live data begin anywhere and have gaps, so there a range lies between two MEPs of the set whose numbers
// are not consecutive. It may have ids that front-ends left out, but all ranges together have no more events than can
// be missing; of events after the last MEP only the number is known.
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

// Missing returns the events 0 to before triggered that are not in the set; limit bounds how many ranges are listed.
func (s *MEPSet) Missing(triggered uint64, limit int) Gaps {
	g := Gaps{Ranges: []Range{}}
	for from, to := range s.missingRanges(triggered) {
		g.add(from, to, limit)
	}
	return g
}

// EndEvent returns the event id after the last event of the set; for live data the number of events in it.
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

// countBeyond returns how many events of the set are not below triggered.
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
