package readoutunit

import (
	"ringlet/event/placing"
	"ringlet/tagnet"
)

// Free is no discipline at all, the baseline: whatever is granted is sent at once, so that all readout units write to
// the same builder unit at the same time. The discipline pull is the same at a readout unit: there the grants are the
// builder unit's requests, and what was announced need not be asked for.
type Free struct {
	Transfers

	visits []int // all builder units, in the order of their indices

	// Places to be served, in the order they were granted: in all, and by builder unit. One that was served by the one
	// is passed over in the other.
	granted fifo
	to      []fifo
}

// fifo is a queue of places.
type fifo struct {
	places []uint64
	head   int
}

func (q *fifo) push(n uint64) { q.places = append(q.places, n) }

// first is the first place of the queue that is wanted; those before it are dropped.
func (q *fifo) first(wanted func(n uint64) bool) (uint64, bool) {
	for ; q.head < len(q.places); q.head++ {
		if n := q.places[q.head]; wanted(n) {
			return n, true
		}
		// Moving the rest only when it is the smaller half makes a move per place, in the mean.
		if 2*(q.head+1) >= len(q.places) {
			q.places, q.head = q.places[:copy(q.places, q.places[q.head+1:])], -1
		}
	}
	q.places, q.head = q.places[:0], 0
	return 0, false
}

// newFree makes the order of a readout unit for bus builder units with the given number of slots each.
func newFree(bus, slots int) *Free {
	f := &Free{Transfers: newTransfers(bus, slots), to: make([]fifo, bus)}
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
func (f *Free) Standing(bu int, m *placing.Standing) error { return f.stand(bu, m, f.serve) }

// serve queues a transfer that is granted.
func (f *Free) serve(n uint64) {
	if t := f.At(n); t.Stage == stageGranted {
		f.granted.push(n)
		f.to[t.BU].push(n)
	}
}

// waits tells that the transfer at a place was granted, and neither sent nor withdrawn since.
func (f *Free) waits(n uint64) bool { return n >= f.base && f.At(n).Stage == stageGranted }

// Turn implements Order.
func (f *Free) Turn() (Turn, uint64) {
	if n, ok := f.granted.first(f.waits); ok {
		return Send, n
	}
	if f.Open() > 0 {
		return ForGrant, 0
	}
	return ForToken, 0
}

// Serve implements Order.
func (f *Free) Serve(n uint64, most int, places []uint64) []uint64 {
	to := &f.to[f.At(n).BU]
	for ok := true; ok && most > 0; n, ok = to.first(f.waits) {
		f.write(n)
		places = append(places, n)
		most--
	}
	return places
}

// Passed implements Order; there are no phases.
func (f *Free) Passed(int) {}
