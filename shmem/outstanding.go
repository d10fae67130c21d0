package shmem

// outstandingPlaces keeps the places that are out at a process, in order of position. Places may be
// finished in any order; the front moves over those that are.
type outstandingPlaces struct {
	places      []place // a ring buffer; its length is a power of two
	first, last uint64  // tickets: [first, last) are in it
}

type place struct {
	pos  uint64
	done bool
}

func newOutstanding() outstandingPlaces { return outstandingPlaces{places: make([]place, 16)} }

// push enters a place that is out and returns its ticket.
func (l *outstandingPlaces) push(pos uint64) uint64 {
	if l.last-l.first == uint64(len(l.places)) {
		bigger := make([]place, 2*len(l.places))
		for t := l.first; t < l.last; t++ {
			bigger[t%uint64(len(bigger))] = l.places[t%uint64(len(l.places))]
		}
		l.places = bigger
	}
	*l.placeAt(l.last) = place{pos: pos}
	l.last++
	return l.last - 1
}

// contains says whether the ticket is that of a place at pos that is out.
func (l *outstandingPlaces) contains(ticket, pos uint64) bool {
	if ticket < l.first || ticket >= l.last {
		return false
	}
	p := l.placeAt(ticket)
	return p.pos == pos && !p.done
}

// finish marks a place that is out as done.
func (l *outstandingPlaces) finish(ticket uint64) {
	l.placeAt(ticket).done = true
	for l.first < l.last && l.placeAt(l.first).done {
		l.first++
	}
}

// front is the position of the first place still out, or otherwise when none is.
func (l *outstandingPlaces) front(otherwise uint64) uint64 {
	if l.first == l.last {
		return otherwise
	}
	return l.placeAt(l.first).pos
}

func (l *outstandingPlaces) isEmpty() bool { return l.first == l.last }

func (l *outstandingPlaces) placeAt(ticket uint64) *place {
	return &l.places[ticket%uint64(len(l.places))]
}
