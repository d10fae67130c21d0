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

	visits []int // all builder units, in the order of their indices

	// Places to be served, in the order they were granted: in all, and by builder unit. One that was served by the one
	// is passed over in the other.
	granted fifo
	to      []fifo

	full   []bool // by builder unit: the link to it takes nothing
	passed []bool // by builder unit: granted lacks places of it, which were passed over; to has them
}

// fifo is a queue of places.
type fifo struct {
	places []uint64
	head   int
}

func (q *fifo) push(n uint64) { q.places = append(q.places, n) }

// first is the first one of the queue that is wanted; those before it are dropped.
func (q *fifo) first(wanted func(n uint64) bool) (uint64, bool) {
	for q.head < len(q.places) {
		if n := q.places[q.head]; wanted(n) {
			return n, true
		}
		q.drop()
	}
	q.places, q.head = q.places[:0], 0
	return 0, false
}

// drop drops the first one.
func (q *fifo) drop() {
	q.head++
	// Moving the rest only when it is the smaller half makes a move per place, in the mean.
	if 2*q.head >= len(q.places) {
		q.places, q.head = q.places[:copy(q.places, q.places[q.head:])], 0
	}
}

// newFree makes the order of a readout unit for bus builder units with the given number of slots each.
func newFree(bus, slots int) *Free {
	f := &Free{
		Transfers: newTransfers(bus, slots),
		to:        make([]fifo, bus),
		full:      make([]bool, bus),
		passed:    make([]bool, bus),
	}
	for b := range bus {
		f.visits = append(f.visits, b)
	}
	return f
}

// NewPulled is newFree for builder units that ask for what they want.
func NewPulled(bus, slots int) *Free {
	f := newFree(bus, slots)
	f.onRequest = true
	return f
}

// Visits implements Order.
func (f *Free) Visits() []int { return f.visits }

// Cycle implements Order.
func (f *Free) Cycle(b *tagnet.Batch, i int) error {
	err := f.cycle(b, i, f.end())
	if err == nil && f.Stands() {
		for n := f.end() - uint64(f.width); n < f.end(); n++ {
			f.serve(n)
		}
	}
	return err
}

// Grant implements Order.
func (f *Free) Grant(bu int, g *placing.Grant) error {
	n, err := f.grant(bu, g)
	if err == nil && n != noPlace {
		f.serve(n)
	}
	return err
}

// Standing implements Order.
func (f *Free) Standing(bu int, m *placing.PreGrants) error { return f.stand(bu, m, f.serve) }

// serve queues a transfer that is granted.
func (f *Free) serve(n uint64) {
	if t := f.At(n); t.Stage == stageGranted {
		f.granted.push(n)
		f.to[t.BU].push(n)
	}
}

// waits tells that the transfer at a place was granted, and neither sent nor withdrawn since.
func (f *Free) waits(n uint64) bool { return n >= f.base && f.At(n).Stage == stageGranted }

// mayGo tells that a transfer waits, and not for a link.
func (f *Free) mayGo(n uint64) bool {
	if !f.waits(n) {
		return false
	}
	bu := f.At(n).BU
	f.passed[bu] = f.passed[bu] || f.full[bu]
	return !f.full[bu]
}

// oldest is the oldest transfer to a builder unit that waits.
func (f *Free) oldest(bu int) (uint64, bool) { return f.to[bu].first(f.waits) }

// Full implements Order.
func (f *Free) Full(bu int, full bool) {
	f.full[bu] = full
	f.rejoin(bu)
}

// rejoin puts a builder unit that was passed over behind the others: its oldest transfer, for all.
func (f *Free) rejoin(bu int) {
	if !f.passed[bu] || f.full[bu] {
		return
	}
	n, more := f.oldest(bu)
	if f.passed[bu] = more; more {
		f.granted.push(n)
	}
}

// Turn implements Order.
func (f *Free) Turn() (Turn, uint64) {
	if n, ok := f.granted.first(f.mayGo); ok {
		n, _ = f.oldest(int(f.At(n).BU))
		return Send, n
	}
	for bu, full := range f.full {
		if _, ok := f.oldest(bu); full && ok {
			return ForRoom, 0
		}
	}
	if f.Open() > 0 {
		return ForGrant, 0
	}
	return ForToken, 0
}

// Serve implements Order.
func (f *Free) Serve(n uint64, most int, places []uint64) []uint64 {
	bu := int(f.At(n).BU)
	for ok := true; ok && most > 0; n, ok = f.oldest(bu) {
		f.write(n)
		places = append(places, n)
		most--
	}
	f.rejoin(bu)
	return places
}

// Passed implements Order; there are no phases.
func (f *Free) Passed(int) {}
