package ejfat

import (
	"time"

	"ringlet/event"
	"ringlet/event/ejfat"
)

// Limits of what a socket's senders can make the reassembly hold.
const (
	maxHeld   = 32 << 20 // bytes of memory for fragments
	maxQueued = 1 << 14  // fragments that are whole and not done with
	maxParts  = 1 << 10  // fragments of which a part is here
	maxPieces = 64       // stretches of bytes of such a fragment
	remember  = 1 << 13  // events that are over, of which parts may still come
)

// partTime is how long the rest of a fragment may take after its first segment.
const partTime = 500 * time.Millisecond

// verdict is what became of a segment.
type verdict uint8

const (
	took     verdict = iota // its bytes are new
	whole                   // with it a fragment is whole
	repeated                // its bytes are here, or the fragment is over
	refused                 // it contradicts what is here, or is too large
	dropped                 // there is no room for its fragment, which is lost
)

// piece is a stretch of bytes [from, to).
type piece struct{ from, to uint32 }

// part is a fragment of which some bytes are here.
type part struct {
	event  uint64
	first  time.Time // when its first segment came
	data   []byte    // as long as the fragment
	pieces []piece   // what is here, in order, without touching each other
}

// reassembly puts the segments of one source together. It has no I/O and no clock.
type reassembly struct {
	byEvent map[uint64]*part
	oldest  []*part // in the order of their first segments; those that are whole leave at once
	spare   []*part
	held    int     // bytes of all parts' memory, spare ones included
	queue   []*part // whole, in the order in which they became so: not taken, then taken and not done
	taken   int     // of the queue, how many Next has given

	over  [remember]uint64 // numbers + 1 of events that were whole or given up, the latest of each remainder
	stats struct{ lost, refused, repeated uint64 }
}

func newReassembly() *reassembly {
	return &reassembly{byEvent: map[uint64]*part{}}
}

// take puts a segment where it belongs.
func (r *reassembly) take(s ejfat.Segment, now time.Time) verdict {
	v := r.place(s, now)
	switch v {
	case repeated:
		r.stats.repeated++
	case refused:
		r.stats.refused++
	}
	return v
}

func (r *reassembly) place(s ejfat.Segment, now time.Time) verdict {
	if s.Length > event.MaxFragment {
		return refused
	}
	if r.over[s.Event%remember] == s.Event+1 {
		return repeated
	}
	p := r.byEvent[s.Event]
	if p == nil {
		if p = r.begin(s, now); p == nil {
			return dropped
		}
	} else if len(p.data) != int(s.Length) {
		return refused
	}
	v := p.add(piece{s.Offset, s.Offset + uint32(len(s.Data))})
	if v == refused || v == repeated {
		return v
	}
	copy(p.data[s.Offset:], s.Data)
	if v == whole {
		r.leave(p)
		r.queue = append(r.queue, p)
	}
	return v
}

// begin makes a part for the fragment of a segment; nil says that there is no room. The oldest part makes room for the
// newest, whole fragments do not: whoever took them is late, and what comes is lost as it would be in the socket.
func (r *reassembly) begin(s ejfat.Segment, now time.Time) *part {
	if len(r.oldest) == maxParts {
		r.giveUp(r.oldest[0])
	}
	var p *part
	if n := len(r.spare); n > 0 {
		p, r.spare = r.spare[n-1], r.spare[:n-1]
	} else {
		p = &part{}
	}
	p.event, p.first, p.pieces = s.Event, now, p.pieces[:0]
	if more := int(s.Length) - cap(p.data); more > 0 {
		r.held += more
		p.data = nil
	}
	for r.held > maxHeld && len(r.spare)+len(r.oldest) > 0 {
		if len(r.spare) == 0 {
			r.giveUp(r.oldest[0])
		}
		last := len(r.spare) - 1
		r.held -= cap(r.spare[last].data)
		r.spare = r.spare[:last]
	}
	if r.held > maxHeld || len(r.queue) == maxQueued {
		r.held -= max(cap(p.data), int(s.Length))
		r.stats.lost++
		r.enter(s.Event)
		return nil
	}
	if p.data == nil {
		p.data = make([]byte, s.Length)
	}
	p.data = p.data[:s.Length]
	r.byEvent[s.Event] = p
	r.oldest = append(r.oldest, p)
	return p
}

// add enters a stretch that came. It may touch others and not overlap them in part.
func (p *part) add(n piece) verdict {
	if len(p.data) == 0 {
		return whole
	}
	i := 0
	for i < len(p.pieces) && p.pieces[i].to < n.from {
		i++
	}
	switch {
	case i < len(p.pieces) && p.pieces[i].to == n.from: // it goes on from the one before
		if i+1 < len(p.pieces) && p.pieces[i+1].from < n.to {
			return p.overlap(n, i+1)
		}
		p.pieces[i].to = n.to
		if i+1 < len(p.pieces) && p.pieces[i+1].from == n.to {
			p.pieces[i].to = p.pieces[i+1].to
			p.pieces = append(p.pieces[:i+1], p.pieces[i+2:]...)
		}
	case i < len(p.pieces) && p.pieces[i].from < n.to:
		return p.overlap(n, i)
	case i < len(p.pieces) && p.pieces[i].from == n.to:
		p.pieces[i].from = n.from
	case len(p.pieces) == maxPieces:
		return refused
	default:
		p.pieces = append(p.pieces, piece{})
		copy(p.pieces[i+1:], p.pieces[i:])
		p.pieces[i] = n
	}
	if p.pieces[0] == (piece{0, uint32(len(p.data))}) {
		return whole
	}
	return took
}

// overlap judges a stretch of which some bytes are in piece i: a sender that repeats a segment repeats all of it.
func (p *part) overlap(n piece, i int) verdict {
	if p.pieces[i].from <= n.from && n.to <= p.pieces[i].to {
		return repeated
	}
	return refused
}

// leave takes a part out of those that wait for the rest, and remembers its event.
func (r *reassembly) leave(p *part) {
	delete(r.byEvent, p.event)
	for i, o := range r.oldest {
		if o == p {
			r.oldest = append(r.oldest[:i], r.oldest[i+1:]...)
			break
		}
	}
	r.enter(p.event)
}

// enter remembers that an event is over.
func (r *reassembly) enter(event uint64) {
	r.over[event%remember] = event + 1
}

// giveUp lets go of a part whose rest did not come.
func (r *reassembly) giveUp(p *part) {
	r.leave(p)
	r.stats.lost++
	r.spare = append(r.spare, p)
}

// expire gives up the parts whose rest takes too long.
func (r *reassembly) expire(now time.Time) {
	for len(r.oldest) > 0 && now.Sub(r.oldest[0].first) >= partTime {
		r.giveUp(r.oldest[0])
	}
}

// next is the next fragment that is whole and was not given.
func (r *reassembly) next() (*part, bool) {
	if r.taken == len(r.queue) {
		return nil, false
	}
	r.taken++
	return r.queue[r.taken-1], true
}

// done takes back the first n fragments that were given.
func (r *reassembly) done(n int) {
	n = min(n, r.taken)
	r.spare = append(r.spare, r.queue[:n]...)
	r.queue = append(r.queue[:0], r.queue[n:]...)
	r.taken -= n
}
