package ejfat

import (
	"slices"
	"time"

	"ringlet/event"
	"ringlet/event/ejfat"
	"ringlet/internal/hugepages"
)

// Limits of the memory that senders can make the reassembly hold.
const (
	minHeldBytes     = 32 << 20 // bytes of memory for fragments; HeldBytes is more where they may be large
	maxCompleted     = 1 << 14  // fragments that are complete and not released
	maxPartials      = 1 << 10  // fragments of which some bytes are missing
	maxRanges        = 64       // byte ranges of such a fragment
	rememberedEvents = 1 << 13  // events that are over and whose segments may still come
)

// HeldBytes is the most memory that senders can make a feed hold, in bytes, if a fragment has at most the given bytes.
func HeldBytes(maxFragment int) int {
	if maxFragment > event.MaxNarrowFragment {
		return 2*maxFragment + minHeldBytes
	}
	return minHeldBytes
}

// partialTimeout is how long a fragment waits for its next segment.
const partialTimeout = 500 * time.Millisecond

// segmentVerdict is what became of a segment.
type segmentVerdict uint8

const (
	segmentStored    segmentVerdict = iota // its bytes are new
	segmentCompletes                       // with it a fragment is whole
	segmentRepeated                        // its bytes came before, or the fragment is over
	segmentRefused                         // it contradicts earlier segments, or is too large
	segmentDropped                         // there is no room for its fragment, which is lost
)

// byteRange is the bytes [from, to) of a fragment.
type byteRange struct{ from, to uint32 }

// partialFragment is a fragment of which some bytes may be missing.
type partialFragment struct {
	event  uint64
	grewAt time.Time   // when the last segment with new bytes came
	data   []byte      // as long as the fragment
	ranges []byteRange // bytes that have come, in order; no two ranges touch
}

// reassembly puts the segments of one source together. It has no I/O and no clock.
type reassembly struct {
	maxFragment, maxHeldBytes int // immutable

	byEvent   map[uint64]*partialFragment
	pending   []*partialFragment // in the order of their first segments; complete ones leave at once
	spare     []*partialFragment
	heldBytes int // bytes of all partials' memory, spare ones included
	// in the order of completion: first those handed out and not released, then the others
	completedFragments []*partialFragment
	handedOutCount     int // how many of completedFragments Next has returned

	// event number + 1 of events that were complete or given up, the latest for each number mod rememberedEvents
	finishedEvents [rememberedEvents]uint64
	stats          struct{ lost, refused, repeated uint64 }
}

// newReassembly returns a reassembly of fragments of at most the given bytes.
func newReassembly(maxFragment int) *reassembly {
	return &reassembly{
		maxFragment:  maxFragment,
		maxHeldBytes: HeldBytes(maxFragment),
		byEvent:      map[uint64]*partialFragment{},
	}
}

// addSegment adds a segment to its fragment, and counts it.
func (r *reassembly) addSegment(s ejfat.Segment, now time.Time) segmentVerdict {
	v := r.storeSegment(s, now)
	switch v {
	case segmentRepeated:
		r.stats.repeated++
	case segmentRefused:
		r.stats.refused++
	}
	return v
}

func (r *reassembly) storeSegment(s ejfat.Segment, now time.Time) segmentVerdict {
	if uint64(s.Length) > uint64(r.maxFragment) {
		return segmentRefused
	}
	if r.finishedEvents[s.Event%rememberedEvents] == s.Event+1 {
		return segmentRepeated
	}
	p := r.byEvent[s.Event]
	if p == nil {
		if p = r.startPartial(s, now); p == nil {
			return segmentDropped
		}
	} else if len(p.data) != int(s.Length) {
		return segmentRefused
	}
	v := p.add(byteRange{s.Offset, s.Offset + uint32(len(s.Data))})
	if v == segmentRefused || v == segmentRepeated {
		return v
	}
	copy(p.data[s.Offset:], s.Data)
	p.grewAt = now
	if v == segmentCompletes {
		r.removePending(p)
		r.completedFragments = append(r.completedFragments, p)
	}
	return v
}

// startPartial makes a partial for the fragment of a segment; nil says that there is no room. The partial that has
// waited longest is given up to make room for the newest. Complete fragments are not: if the consumer is late with
// them, new fragments are lost, as they would be in the buffer of the socket.
func (r *reassembly) startPartial(s ejfat.Segment, now time.Time) *partialFragment {
	if len(r.pending) == maxPartials {
		r.giveUp(r.longestWaiting())
	}
	var p *partialFragment
	if n := len(r.spare); n > 0 {
		p, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		p = &partialFragment{}
	}
	p.event, p.grewAt, p.ranges = s.Event, now, p.ranges[:0]
	if more := int(s.Length) - cap(p.data); more > 0 {
		r.heldBytes += more
		p.data = nil
	}
	for r.heldBytes > r.maxHeldBytes && len(r.spare)+len(r.pending) > 0 {
		if len(r.spare) == 0 {
			r.giveUp(r.longestWaiting())
		}
		last := len(r.spare) - 1
		r.heldBytes -= cap(r.spare[last].data)
		r.spare = r.spare[:last]
	}
	if r.heldBytes > r.maxHeldBytes || len(r.completedFragments) == maxCompleted {
		r.heldBytes -= max(cap(p.data), int(s.Length))
		r.stats.lost++
		r.markFinished(s.Event)
		return nil
	}
	if p.data == nil {
		p.data = hugepages.Advise(make([]byte, s.Length))
	}
	p.data = p.data[:s.Length]
	r.byEvent[s.Event] = p
	r.pending = append(r.pending, p)
	return p
}

// longestWaiting returns the partial whose next segment is due longest.
func (r *reassembly) longestWaiting() *partialFragment {
	return slices.MinFunc(r.pending, func(a, b *partialFragment) int { return a.grewAt.Compare(b.grewAt) })
}

// add adds a range that has come. It may touch other ranges; if it overlaps some in part, it is refused.
func (p *partialFragment) add(n byteRange) segmentVerdict {
	if len(p.data) == 0 {
		return segmentCompletes
	}
	i := 0
	for i < len(p.ranges) && p.ranges[i].to < n.from {
		i++
	}
	switch {
	case i < len(p.ranges) && p.ranges[i].to == n.from: // it continues the range before
		if i+1 < len(p.ranges) && p.ranges[i+1].from < n.to {
			return p.overlap(n, i+1)
		}
		p.ranges[i].to = n.to
		if i+1 < len(p.ranges) && p.ranges[i+1].from == n.to {
			p.ranges[i].to = p.ranges[i+1].to
			p.ranges = append(p.ranges[:i+1], p.ranges[i+2:]...)
		}
	case i < len(p.ranges) && p.ranges[i].from < n.to:
		return p.overlap(n, i)
	case i < len(p.ranges) && p.ranges[i].from == n.to:
		p.ranges[i].from = n.from
	case len(p.ranges) == maxRanges:
		return segmentRefused
	default:
		p.ranges = append(p.ranges, byteRange{})
		copy(p.ranges[i+1:], p.ranges[i:])
		p.ranges[i] = n
	}
	if p.ranges[0] == (byteRange{0, uint32(len(p.data))}) {
		return segmentCompletes
	}
	return segmentStored
}

// overlap judges a range of which some bytes are in range i: a sender that repeats a segment repeats all of it.
func (p *partialFragment) overlap(n byteRange, i int) segmentVerdict {
	if p.ranges[i].from <= n.from && n.to <= p.ranges[i].to {
		return segmentRepeated
	}
	return segmentRefused
}

// removePending removes a partial from those that wait for missing bytes, and remembers its event.
func (r *reassembly) removePending(p *partialFragment) {
	delete(r.byEvent, p.event)
	for i, o := range r.pending {
		if o == p {
			r.pending = append(r.pending[:i], r.pending[i+1:]...)
			break
		}
	}
	r.markFinished(p.event)
}

// markFinished remembers that an event is over.
func (r *reassembly) markFinished(event uint64) {
	r.finishedEvents[event%rememberedEvents] = event + 1
}

// giveUp gives up a partial whose missing bytes did not come.
func (r *reassembly) giveUp(p *partialFragment) {
	r.removePending(p)
	r.stats.lost++
	r.spare = append(r.spare, p)
}

// expire gives up the partials of which nothing new has come for too long.
func (r *reassembly) expire(now time.Time) {
	for i := 0; i < len(r.pending); {
		if now.Sub(r.pending[i].grewAt) < partialTimeout {
			i++
			continue
		}
		r.giveUp(r.pending[i]) // removes it
	}
}

// nextCompleted returns the next complete fragment that was not handed out.
func (r *reassembly) nextCompleted() (*partialFragment, bool) {
	if r.handedOutCount == len(r.completedFragments) {
		return nil, false
	}
	r.handedOutCount++
	return r.completedFragments[r.handedOutCount-1], true
}

// release frees the first n fragments that were handed out.
func (r *reassembly) release(n int) {
	n = min(n, r.handedOutCount)
	r.spare = append(r.spare, r.completedFragments[:n]...)
	r.completedFragments = append(r.completedFragments[:0], r.completedFragments[n:]...)
	r.handedOutCount -= n
}
