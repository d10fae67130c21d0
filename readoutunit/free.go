package readoutunit

// free is no discipline at all, the baseline: a unit sends as soon as a window is granted, so that all readout units
// write to the same builder unit at the same time. For a readout unit the discipline pull is the same, except that a
// grant is a builder unit's request, and some announced parts are never requested.
//
// A builder unit whose link is full holds up no other one: free passes over it, and queues it again behind the others
// when the link takes more.
type free struct {
	t      *Transfers
	visits []int // all builder units, in the order of their indices

	// Places to serve, in the order of their grants: over all builder units, and by builder unit. A place that was served
	// from one queue is skipped in the other.
	grantedPlaces fifo
	grantedByBU   []fifo

	hasPassedOver []bool // by builder unit: passed over, so grantedPlaces lacks places of it, which grantedByBU has
}

// fifo is a queue of places.
type fifo struct {
	places []uint64
	head   int
}

func (q *fifo) push(n uint64) { q.places = append(q.places, n) }

// firstWanted is the first place of the queue for which wanted is true; it drops the places before.
func (q *fifo) firstWanted(wanted func(n uint64) bool) (uint64, bool) {
	for q.head < len(q.places) {
		if n := q.places[q.head]; wanted(n) {
			return n, true
		}
		q.dropFirst()
	}
	q.places, q.head = q.places[:0], 0
	return 0, false
}

// dropFirst drops the first place.
func (q *fifo) dropFirst() {
	q.head++
	// Moving the rest only when it is the smaller half makes a move per place, in the mean.
	if 2*q.head >= len(q.places) {
		q.places, q.head = q.places[:copy(q.places, q.places[q.head:])], 0
	}
}

func orderFree(c DisciplineConfig, t *Transfers) Order {
	return &free{
		t:             t,
		visits:        allUnits(c.BUs),
		grantedByBU:   make([]fifo, c.BUs),
		hasPassedOver: make([]bool, c.BUs),
	}
}

// Visits implements Order.
func (f *free) Visits() []int { return f.visits }

// FirstNeeded implements Order.
func (f *free) FirstNeeded() uint64 { return f.t.nextPlace() }

// Note implements Order.
func (f *free) Note(c Change, n uint64) error {
	switch c {
	case CycleCame:
		for _, bu := range f.t.visits {
			f.enqueue(n + uint64(bu))
		}
	case Granted:
		f.enqueue(n)
	case Sent:
		f.requeue(int(f.t.TransferAt(n).BU))
	case LinkChanged:
		f.requeue(int(n))
	}
	return nil
}

// enqueue queues a transfer if it has its window.
func (f *free) enqueue(n uint64) {
	if t := f.t.TransferAt(n); t.Stage == stageGranted {
		f.grantedPlaces.push(n)
		f.grantedByBU[t.BU].push(n)
	}
}

// isWaiting tells that the transfer at a place has its window, and was neither sent nor withdrawn since.
func (f *free) isWaiting(n uint64) bool {
	return n >= f.t.firstPlace && f.t.TransferAt(n).Stage == stageGranted
}

// isSendable tells that the transfer at a place waits and its link is not full.
func (f *free) isSendable(n uint64) bool {
	if !f.isWaiting(n) {
		return false
	}
	bu := f.t.TransferAt(n).BU
	full := f.t.builders[bu].linkFull
	f.hasPassedOver[bu] = f.hasPassedOver[bu] || full
	return !full
}

// oldestWaiting is the oldest waiting transfer to a builder unit.
func (f *free) oldestWaiting(bu int) (uint64, bool) {
	return f.grantedByBU[bu].firstWanted(f.isWaiting)
}

// Along implements Order: all waiting transfers to the same builder unit.
func (f *free) Along(places []uint64, most int) []uint64 {
	q := &f.grantedByBU[f.t.TransferAt(places[len(places)-1]).BU]
	for _, n := range q.places[q.head+1:] { // the first is the one that Next named
		if len(places) == most {
			break
		}
		if f.isWaiting(n) {
			places = append(places, n)
		}
	}
	return places
}

// requeue queues a builder unit that was passed over behind the others, by its oldest transfer.
func (f *free) requeue(bu int) {
	if !f.hasPassedOver[bu] || f.t.builders[bu].linkFull {
		return
	}
	n, more := f.oldestWaiting(bu)
	if f.hasPassedOver[bu] = more; more {
		f.grantedPlaces.push(n)
	}
}

// Next implements Order.
func (f *free) Next() (Turn, uint64) {
	if n, ok := f.grantedPlaces.firstWanted(f.isSendable); ok {
		n, _ = f.oldestWaiting(int(f.t.TransferAt(n).BU))
		return Send, n
	}
	for bu := range f.t.builders {
		if _, ok := f.oldestWaiting(bu); ok && f.t.builders[bu].linkFull {
			return WaitLink, 0
		}
	}
	if f.t.OpenTransfers() > 0 {
		return WaitGrant, 0
	}
	return WaitToken, 0
}
