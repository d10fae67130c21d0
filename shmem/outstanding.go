package shmem

// outstandingPlaces holds the places that a process has reserved or is reading, in order of position. They may finish
// in any order; front advances over finished ones.
type outstandingPlaces struct {
	places      []place // a ring buffer; its length is a power of two
	first, last uint64  // tickets: the places [first, last)
}

type place struct {
	pos  uint64
	done bool
}

func newOutstanding() outstandingPlaces { return outstandingPlaces{places: make([]place, 16)} }

// push adds a place and returns its ticket.
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

// contains reports whether the ticket belongs to an unfinished place at pos.
func (l *outstandingPlaces) contains(ticket, pos uint64) bool {
	if ticket < l.first || ticket >= l.last {
		return false
	}
	p := l.placeAt(ticket)
	return p.pos == pos && !p.done
}

// finish marks a place as finished.
func (l *outstandingPlaces) finish(ticket uint64) {
	l.placeAt(ticket).done = true
	for l.first < l.last && l.placeAt(l.first).done {
		l.first++
	}
}

// front is the position of the first unfinished place, or otherwise if there is none.
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
