package ejfat

import (
	"time"

	"ringlet/event"
	"ringlet/event/ejfat"
)

// Limits of what a socket's senders can make the reassembly hold.
const (
	maxHeld          = 32 << 20 // bytes of memory for fragments
	maxQueued        = 1 << 14  // fragments that are whole and not done with
	maxPartials      = 1 << 10  // fragments of which a part is here
	maxRanges        = 64       // stretches of bytes of such a fragment
	rememberedEvents = 1 << 13  // events that are over, of which parts may still come
)

// partialTimeout is how long the rest of a fragment may take after its first segment.
const partialTimeout = 500 * time.Millisecond

// verdict is what became of a segment.
type verdict uint8

const (
	stored    verdict = iota // its bytes are new
	completed                // with it a fragment is whole
	repeated                 // its bytes are here, or the fragment is over
	refused                  // it contradicts what is here, or is too large
	dropped                  // there is no room for its fragment, which is lost
)

// byteRange is a stretch of bytes [from, to).
type byteRange struct{ from, to uint32 }

// partial is a fragment of which some bytes are here.
type partial struct {
	event   uint64
	started time.Time   // when its first segment came
	data    []byte      // as long as the fragment
	ranges  []byteRange // what is here, in order, without touching each other
}

// reassembly puts the segments of one source together. It has no I/O and no clock.
type reassembly struct {
	byEvent   map[uint64]*partial
	pending   []*partial // in the order of their first segments; those that are whole leave at once
	spare     []*partial
	heldBytes int        // bytes of all partials' memory, spare ones included
	completed []*partial // whole, in the order in which they became so: handed out and not done, then the others
	handedOut int        // of completed, how many Next has given

	finished [rememberedEvents]uint64 // numbers + 1 of events that were whole or given up, the latest of each remainder
	stats    struct{ lost, refused, repeated uint64 }
}

func newReassembly() *reassembly {
	return &reassembly{byEvent: map[uint64]*partial{}}
}

// addSegment puts a segment where it belongs.
func (r *reassembly) addSegment(s ejfat.Segment, now time.Time) verdict {
	v := r.storeSegment(s, now)
	switch v {
	case repeated:
		r.stats.repeated++
	case refused:
		r.stats.refused++
	}
	return v
}

func (r *reassembly) storeSegment(s ejfat.Segment, now time.Time) verdict {
	if s.Length > event.MaxFragment {
		return refused
	}
	if r.finished[s.Event%rememberedEvents] == s.Event+1 {
		return repeated
	}
	p := r.byEvent[s.Event]
	if p == nil {
		if p = r.startPartial(s, now); p == nil {
			return dropped
		}
	} else if len(p.data) != int(s.Length) {
		return refused
	}
	v := p.add(byteRange{s.Offset, s.Offset + uint32(len(s.Data))})
	if v == refused || v == repeated {
		return v
	}
	copy(p.data[s.Offset:], s.Data)
	if v == completed {
		r.removePending(p)
		r.completed = append(r.completed, p)
	}
	return v
}

// startPartial makes a partial for the fragment of a segment; nil says that there is no room. The oldest one makes room
// for the newest, whole fragments do not: whoever took them is late, and what comes is lost as it would be in the
// socket.
func (r *reassembly) startPartial(s ejfat.Segment, now time.Time) *partial {
	if len(r.pending) == maxPartials {
		r.giveUp(r.pending[0])
	}
	var p *partial
	if n := len(r.spare); n > 0 {
		p, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		p = &partial{}
	}
	p.event, p.started, p.ranges = s.Event, now, p.ranges[:0]
	if more := int(s.Length) - cap(p.data); more > 0 {
		r.heldBytes += more
		p.data = nil
	}
	for r.heldBytes > maxHeld && len(r.spare)+len(r.pending) > 0 {
		if len(r.spare) == 0 {
			r.giveUp(r.pending[0])
		}
		last := len(r.spare) - 1
		r.heldBytes -= cap(r.spare[last].data)
		r.spare = r.spare[:last]
	}
	if r.heldBytes > maxHeld || len(r.completed) == maxQueued {
		r.heldBytes -= max(cap(p.data), int(s.Length))
		r.stats.lost++
		r.markFinished(s.Event)
		return nil
	}
	if p.data == nil {
		p.data = make([]byte, s.Length)
	}
	p.data = p.data[:s.Length]
	r.byEvent[s.Event] = p
	r.pending = append(r.pending, p)
	return p
}

// add enters a stretch that came. It may touch others and not overlap them in part.
func (p *partial) add(n byteRange) verdict {
	if len(p.data) == 0 {
		return completed
	}
	i := 0
	for i < len(p.ranges) && p.ranges[i].to < n.from {
		i++
	}
	switch {
	case i < len(p.ranges) && p.ranges[i].to == n.from: // it goes on from the one before
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
		return refused
	default:
		p.ranges = append(p.ranges, byteRange{})
		copy(p.ranges[i+1:], p.ranges[i:])
		p.ranges[i] = n
	}
	if p.ranges[0] == (byteRange{0, uint32(len(p.data))}) {
		return completed
	}
	return stored
}

// overlap judges a stretch of which some bytes are in range i: a sender that repeats a segment repeats all of it.
func (p *partial) overlap(n byteRange, i int) verdict {
	if p.ranges[i].from <= n.from && n.to <= p.ranges[i].to {
		return repeated
	}
	return refused
}

// removePending takes a partial out of those that wait for the rest, and remembers its event.
func (r *reassembly) removePending(p *partial) {
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
	r.finished[event%rememberedEvents] = event + 1
}

// giveUp lets go of a partial whose rest did not come.
func (r *reassembly) giveUp(p *partial) {
	r.removePending(p)
	r.stats.lost++
	r.spare = append(r.spare, p)
}

// expire gives up the partials whose rest takes too long.
func (r *reassembly) expire(now time.Time) {
	for len(r.pending) > 0 && now.Sub(r.pending[0].started) >= partialTimeout {
		r.giveUp(r.pending[0])
	}
}

// nextCompleted is the next fragment that is whole and was not given.
func (r *reassembly) nextCompleted() (*partial, bool) {
	if r.handedOut == len(r.completed) {
		return nil, false
	}
	r.handedOut++
	return r.completed[r.handedOut-1], true
}

// release takes back the first n fragments that were given.
func (r *reassembly) release(n int) {
	n = min(n, r.handedOut)
	r.spare = append(r.spare, r.completed[:n]...)
	r.completed = append(r.completed[:0], r.completed[n:]...)
	r.handedOut -= n
}
