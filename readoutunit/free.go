package readoutunit

import (
	"ringlet/event/placing"
	"ringlet/tagnet"
)

// Free is no discipline at all, the baseline: whatever is granted is sent at once, so that all readout units write to
// the same builder unit at the same time. The discipline pull is the same at a readout unit: there the grants are the
// builder unit's requests, and what was announced need not be asked for.
//
// A builder unit to which the link is full holds up no other: it is passed over, and joins the queue again behind the
// others when the link takes more.
type Free struct {
	Transfers

	visitOrder []int // all builder units, in the order of their indices

	// Places to be served, in the order they were granted: in all, and by builder unit. One that was served by the one
	// is passed over in the other.
	grantedPlaces fifo
	grantedByBU   []fifo

	linkFull      []bool // by builder unit: the link to it takes nothing
	hasPassedOver []bool // by builder unit: granted lacks places of it, which were passed over; grantedByBU has them
}

// fifo is a queue of places.
type fifo struct {
	places []uint64
	head   int
}

func (q *fifo) push(n uint64) { q.places = append(q.places, n) }

// firstWanted is the first one of the queue that is wanted; those before it are dropped.
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

// dropFirst drops the first one.
func (q *fifo) dropFirst() {
	q.head++
	// Moving the rest only when it is the smaller half makes a move per place, in the mean.
	if 2*q.head >= len(q.places) {
		q.places, q.head = q.places[:copy(q.places, q.places[q.head:])], 0
	}
}

// newFree makes the order of a readout unit for bus builder units with the given number of slots each.
func newFree(bus, slots int) *Free {
	f := &Free{
		Transfers:     newTransfers(bus, slots),
		grantedByBU:   make([]fifo, bus),
		linkFull:      make([]bool, bus),
		hasPassedOver: make([]bool, bus),
	}
	for b := range bus {
		f.visitOrder = append(f.visitOrder, b)
	}
	return f
}

// NewPulled is newFree for builder units that ask for what they want.
func NewPulled(bus, slots int) *Free {
	f := newFree(bus, slots)
	f.grantsOnRequest = true
	return f
}

// VisitOrder implements Order.
func (f *Free) VisitOrder() []int { return f.visitOrder }

// AddCycle implements Order.
func (f *Free) AddCycle(b *tagnet.Batch, i int) error {
	err := f.addCycle(b, i, f.nextPlace())
	if err == nil && f.UsesPreGrants() {
		for n := f.nextPlace() - uint64(f.placesPerCycle); n < f.nextPlace(); n++ {
			f.enqueue(n)
		}
	}
	return err
}

// ApplyGrant implements Order.
func (f *Free) ApplyGrant(bu int, g *placing.Grant) error {
	n, err := f.applyGrant(bu, g)
	if err == nil && n != noPlace {
		f.enqueue(n)
	}
	return err
}

// ApplyPreGrants implements Order.
func (f *Free) ApplyPreGrants(bu int, m *placing.PreGrants) error {
	return f.applyPreGrants(bu, m, f.enqueue)
}

// enqueue queues a transfer that is granted.
func (f *Free) enqueue(n uint64) {
	if t := f.TransferAt(n); t.Stage == stageGranted {
		f.grantedPlaces.push(n)
		f.grantedByBU[t.BU].push(n)
	}
}

// isWaiting tells that the transfer at a place was granted, and neither sent nor withdrawn since.
func (f *Free) isWaiting(n uint64) bool {
	return n >= f.firstPlace && f.TransferAt(n).Stage == stageGranted
}

// isSendable tells that a transfer waits, and not for a link.
func (f *Free) isSendable(n uint64) bool {
	if !f.isWaiting(n) {
		return false
	}
	bu := f.TransferAt(n).BU
	f.hasPassedOver[bu] = f.hasPassedOver[bu] || f.linkFull[bu]
	return !f.linkFull[bu]
}

// oldestWaiting is the oldest transfer to a builder unit that waits.
func (f *Free) oldestWaiting(bu int) (uint64, bool) {
	return f.grantedByBU[bu].firstWanted(f.isWaiting)
}

// SetLinkFull implements Order.
func (f *Free) SetLinkFull(bu int, full bool) {
	f.linkFull[bu] = full
	f.requeue(bu)
}

// requeue puts a builder unit that was passed over behind the others: its oldest transfer, for all.
func (f *Free) requeue(bu int) {
	if !f.hasPassedOver[bu] || f.linkFull[bu] {
		return
	}
	n, more := f.oldestWaiting(bu)
	if f.hasPassedOver[bu] = more; more {
		f.grantedPlaces.push(n)
	}
}

// NextAction implements Order.
func (f *Free) NextAction() (Action, uint64) {
	if n, ok := f.grantedPlaces.firstWanted(f.isSendable); ok {
		n, _ = f.oldestWaiting(int(f.TransferAt(n).BU))
		return Send, n
	}
	for bu, full := range f.linkFull {
		if _, ok := f.oldestWaiting(bu); full && ok {
			return WaitLink, 0
		}
	}
	if f.OpenTransfers() > 0 {
		return WaitGrant, 0
	}
	return WaitToken, 0
}

// Serve implements Order.
func (f *Free) Serve(n uint64, most int, places []uint64) []uint64 {
	bu := int(f.TransferAt(n).BU)
	for ok := true; ok && most > 0; n, ok = f.oldestWaiting(bu) {
		f.markSent(n)
		places = append(places, n)
		most--
	}
	f.requeue(bu)
	return places
}

// AdvancePhase implements Order; there are no phases.
func (f *Free) AdvancePhase(int) {}
