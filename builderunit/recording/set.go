package recording

import (
	"iter"
	"math/bits"
	"slices"
)

// A MEPSet is which MEPs an output holds: a bit for each, and an exception for each that is no first attempt at a whole
// MEP. MEP k has the events from k × packing on, so that a set of MEPs tells which events are there. A Set is not safe
// for concurrent use. Its memory is some 600 bytes for each 4096 MEPs that it has any of, and some 40 bytes for each
// exception. The MEPs of live data have as many events as came in time: a set of them knows the events of each, in 640
// bytes for each 64 MEPs that it has any of. So it takes little, however far apart the numbers of a file are.
type MEPSet struct {
	packing    uint32
	live       bool
	blocks     map[uint64]*mepBlock // by MEP / blockMEPs
	mepCount   uint64
	eventCount uint64
}

const (
	blockShift   = 12
	blockMEPs    = 1 << blockShift
	blockWords   = blockMEPs / 64
	firstAttempt = 1 // what TagNet gives the first one
)

// mepBlock is the MEPs of one number above the lower bits.
type mepBlock struct {
	bits       [blockWords]uint64
	mepCount   uint32               // bits that are set
	exceptions map[uint16]exception // nil while there is none
	live       []*liveWord          // of live data, for each word that has any bit; else nil
}

// liveWord is the events of 64 MEPs of live data.
type liveWord struct {
	firstEvents [64]uint64
	eventCounts [64]uint16
}

// blockIndex is the place of a MEP in its block.
func blockIndex(mep uint64) uint16 { return uint16(mep % blockMEPs) }

// exception is what sets a MEP apart from the first attempt at a whole one.
type exception struct{ attempt, events uint32 }

// NewMEPSet makes an empty set of MEPs that have packing events each, or fewer where an entry says so.
func NewMEPSet(packing int) *MEPSet {
	return &MEPSet{packing: uint32(packing), blocks: map[uint64]*mepBlock{}}
}

// NewLiveMEPSet makes an empty set of MEPs that have any events, in the order of the MEPs, and at most packing each.
func NewLiveMEPSet(packing int) *MEPSet {
	s := NewMEPSet(packing)
	s.live = true
	return s
}

func (s *MEPSet) newBlock() *mepBlock {
	b := &mepBlock{}
	if s.live {
		b.live = make([]*liveWord, blockWords)
	}
	return b
}

// blockOf is the block of a MEP, which is made if there is none.
func (s *MEPSet) blockOf(mep uint64) *mepBlock {
	b := s.blocks[mep>>blockShift]
	if b == nil {
		b = s.newBlock()
		s.blocks[mep>>blockShift] = b
	}
	return b
}

// Add puts e's MEP into the set. copied says that it was there before; of two copies the higher attempt counts, and of
// equal ones the first.
func (s *MEPSet) Add(e Entry) (copied bool) {
	return s.add(e.MEP, exception{e.Attempt, e.Events}, e.FirstEvent)
}

func (s *MEPSet) add(mep uint64, o exception, first uint64) (copied bool) {
	b, at := s.blockOf(mep), blockIndex(mep)
	word, bit := &b.bits[at/64], uint64(1)<<(at%64)
	if copied = *word&bit != 0; copied {
		before := s.lookup(b, at)
		if before.attempt >= o.attempt {
			return true
		}
		s.eventCount -= uint64(before.events)
	} else {
		*word |= bit
		b.mepCount++
		s.mepCount++
	}
	s.eventCount += uint64(o.events)
	if s.live {
		b.setLiveMEP(at, first, o.events)
	}
	if o == s.regularMEP(b, at) {
		delete(b.exceptions, at)
		return copied
	}
	if b.exceptions == nil {
		b.exceptions = map[uint16]exception{}
	}
	b.exceptions[at] = o
	return copied
}

// lookup tells attempt and events of a MEP that is in b.
func (s *MEPSet) lookup(b *mepBlock, at uint16) exception {
	if o, ok := b.exceptions[at]; ok {
		return o
	}
	return s.regularMEP(b, at)
}

// regularMEP is what a MEP of b is that is no exception.
func (s *MEPSet) regularMEP(b *mepBlock, at uint16) exception {
	if s.live {
		return exception{firstAttempt, b.eventCountAt(at)}
	}
	return exception{firstAttempt, s.packing}
}

// Union adds what is in o, which it does not change, and tells how many MEPs were in both. Both sets need the same
// packing, and both be of live data or neither.
func (s *MEPSet) Union(o *MEPSet) (copies uint64) {
	for n, from := range o.blocks {
		to := s.blocks[n]
		if to == nil {
			s.blocks[n] = from.clone()
			s.mepCount += uint64(from.mepCount)
			s.eventCount += o.blockEvents(from)
			continue
		}
		for mep, odd := range o.eachMEP(n, from) {
			if s.add(mep, odd, from.firstEventAt(blockIndex(mep))) {
				copies++
			}
		}
	}
	return copies
}

// MarkSet puts the MEPs of o in as whole ones at the first attempt, for who asks for numbers alone: that takes a bit
// for each, whatever o is of. It may be of other data than s is.
func (s *MEPSet) MarkSet(o *MEPSet) {
	for n, from := range o.blocks {
		for at := range from.eachBit(0, blockWords) {
			s.MarkMEP(n<<blockShift | uint64(at))
		}
	}
}

// MarkMEP marks one MEP.
func (s *MEPSet) MarkMEP(mep uint64) {
	if !s.Contains(mep) {
		s.add(mep, exception{firstAttempt, s.packing}, 0)
	}
}

// setLiveMEP notes the events of a MEP of live data.
func (b *mepBlock) setLiveMEP(at uint16, first uint64, events uint32) {
	w := b.live[at/64]
	if w == nil {
		w = &liveWord{}
		b.live[at/64] = w
	}
	w.firstEvents[at%64], w.eventCounts[at%64] = first, uint16(events)
}

// firstEventAt is the first event of a MEP of live data that is set; else 0.
func (b *mepBlock) firstEventAt(at uint16) uint64 {
	if b.live == nil {
		return 0
	}
	return b.live[at/64].firstEvents[at%64]
}

// eventCountAt is how many events a MEP of live data has that is set.
func (b *mepBlock) eventCountAt(at uint16) uint32 { return uint32(b.live[at/64].eventCounts[at%64]) }

func (b *mepBlock) clone() *mepBlock {
	c := &mepBlock{bits: b.bits, mepCount: b.mepCount, live: slices.Clone(b.live)}
	for i, w := range c.live {
		if w != nil {
			wordCopy := *w
			c.live[i] = &wordCopy
		}
	}
	if len(b.exceptions) > 0 {
		c.exceptions = make(map[uint16]exception, len(b.exceptions))
		for at, o := range b.exceptions {
			c.exceptions[at] = o
		}
	}
	return c
}

// blockEvents adds up the events of a block.
func (s *MEPSet) blockEvents(b *mepBlock) uint64 {
	if s.live {
		sum := uint64(0)
		for at := range b.eachBit(0, blockWords) {
			sum += uint64(b.eventCountAt(uint16(at)))
		}
		return sum
	}
	sum := uint64(b.mepCount-uint32(len(b.exceptions))) * uint64(s.packing)
	for _, o := range b.exceptions {
		sum += uint64(o.events)
	}
	return sum
}

// eachMEP ranges over the MEPs of block n in order.
func (s *MEPSet) eachMEP(n uint64, b *mepBlock) iter.Seq2[uint64, exception] {
	return func(yield func(uint64, exception) bool) {
		for at := range b.eachBit(0, blockWords) {
			if !yield(n<<blockShift|uint64(at), s.lookup(b, uint16(at))) {
				return
			}
		}
	}
}

// eachBit ranges over the bits that are set in the words from one to before the other.
func (b *mepBlock) eachBit(from, to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for w := from; w < to; w++ {
			for word := b.bits[w]; word != 0; word &= word - 1 {
				if !yield(w*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// Contains tells whether the MEP is in the set.
func (s *MEPSet) Contains(mep uint64) bool {
	b := s.blocks[mep>>blockShift]
	return b != nil && b.bits[blockIndex(mep)/64]>>(mep%64)&1 == 1
}

// highestAttempt is the highest attempt at the MEP that was added, and whether it is in the set at all.
func (s *MEPSet) highestAttempt(mep uint64) (attempt uint32, ok bool) {
	if !s.Contains(mep) {
		return 0, false
	}
	return s.lookup(s.blocks[mep>>blockShift], blockIndex(mep)).attempt, true
}

// Packing is the number of events of a whole MEP.
func (s *MEPSet) Packing() int { return int(s.packing) }

// MEPs is how many there are, each once.
func (s *MEPSet) MEPs() uint64 { return s.mepCount }

// Events is how many events they have.
func (s *MEPSet) Events() uint64 { return s.eventCount }

// blockNumbers is the numbers of the blocks, in order.
func (s *MEPSet) blockNumbers() []uint64 {
	numbers := make([]uint64, 0, len(s.blocks))
	for n := range s.blocks {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// ranges gives the stretches of consecutive events that are in the set, in order: from the first to before the second.
// A stretch that goes on behind a block comes in two, one right behind the other.
func (s *MEPSet) ranges(yield func(from, to uint64) bool) {
	p := uint64(s.packing)
	for _, n := range s.blockNumbers() {
		b, from, to := s.blocks[n], uint64(0), uint64(0)
		for w, word := range b.bits {
			first := (n<<blockShift + uint64(w)*64) * p
			if word == ^uint64(0) && len(b.exceptions) == 0 {
				if first != to || from == to {
					if from < to && !yield(from, to) {
						return
					}
					from = first
				}
				to = first + 64*p
				continue
			}
			for at := range b.eachBit(w, w+1) {
				begin := (n<<blockShift + uint64(at)) * p
				if begin != to || from == to {
					if from < to && !yield(from, to) {
						return
					}
					from = begin
				}
				to = begin + uint64(s.lookup(b, uint16(at)).events)
			}
		}
		if from < to && !yield(from, to) {
			return
		}
	}
}

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

// missingRanges gives the stretches of the events 0 to before triggered that are not in the set, in order; of live
// data, of as many events as were triggered.
func (s *MEPSet) missingRanges(triggered uint64) func(yield func(from, to uint64) bool) {
	if s.live {
		return s.missingRangesLive(triggered)
	}
	return func(yield func(from, to uint64) bool) {
		next := uint64(0)
		for from, to := range s.ranges {
			if from >= triggered {
				break
			}
			if from > next && !yield(next, from) {
				return
			}
			next = max(next, to)
		}
		if next < triggered {
			yield(next, triggered)
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

// missingRangesLive gives the stretches between MEPs that are in the set and are not neighbours. Numbers that
// front-ends left out may be among them, but no more events than there can be; those behind the last MEP are only known
// by their number.
func (s *MEPSet) missingRangesLive(triggered uint64) func(yield func(from, to uint64) bool) {
	return func(yield func(from, to uint64) bool) {
		mep, next, remaining := uint64(0), uint64(0), triggered-min(triggered, s.eventCount)
		for _, n := range s.blockNumbers() {
			b := s.blocks[n]
			for at := range b.eachBit(0, blockWords) {
				k, first := n<<blockShift|uint64(at), b.firstEventAt(uint16(at))
				if k > mep && first > next && remaining > 0 {
					from := first - min(remaining, first-next)
					remaining -= first - from
					if !yield(from, first) {
						return
					}
				}
				mep, next = k+1, first+uint64(b.eventCountAt(uint16(at)))
			}
		}
		if remaining > 0 {
			yield(next, next+remaining)
		}
	}
}

// EndEvent is the event id behind the last event of the set; of live data, whose ids begin and go on as they like, the
// number of events in it.
func (s *MEPSet) EndEvent() (end uint64) {
	if s.live {
		return s.eventCount
	}
	for _, to := range s.ranges {
		end = max(end, to)
	}
	return end
}

// countBeyond is how many events of the set are not below triggered.
func (s *MEPSet) countBeyond(triggered uint64) (n uint64) {
	if s.live {
		return s.eventCount - min(s.eventCount, triggered)
	}
	for from, to := range s.ranges {
		if to > triggered {
			n += to - max(from, triggered)
		}
	}
	return n
}
