package readoutunit

import (
	"slices"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// Free is no discipline at all, the baseline: whatever is granted is sent at once, so that all readout units write to the same
// builder unit at the same time. The discipline pull is the same at a readout unit: there the grants are the builder unit's requests, and
// what was announced need not be asked for.
type Free struct {
	Transfers

	visits  []int    // all builder units, in the order of their indices
	granted []uint64 // places to be served, from the index head
	head    int
}

// NewFree makes the order of a readout unit for bus builder units with the given number of slots each.
func NewFree(bus, slots int) *Free {
	f := &Free{Transfers: newTransfers(bus, slots)}
	for b := range bus {
		f.visits = append(f.visits, b)
	}
	return f
}

// NewPulled is NewFree for builder units that ask for what they want.
func NewPulled(bus, slots int) *Free {
	f := NewFree(bus, slots)
	f.onRequest = true
	return f
}

// Visits implements Order.
func (f *Free) Visits() []int { return f.visits }

// Cycle implements Order.
func (f *Free) Cycle(b *tagnet.Batch, i int) error { return f.cycle(b, i, f.end()) }

// Grant implements Order.
func (f *Free) Grant(bu int, g *placing.Grant) error {
	n, err := f.grant(bu, g)
	if err == nil && n != noPlace {
		f.granted = append(f.granted, n)
	}
	return err
}

// Withdraw implements Order.
func (f *Free) Withdraw(w tagnet.Withdrawal) {
	f.serve(int(w.BU))
	f.Transfers.Withdraw(w)
}

// Lose implements Order.
func (f *Free) Lose(bu int, each func(*Transfer)) {
	f.serve(bu)
	f.Transfers.Lose(bu, each)
}

// serve takes a builder unit's transfers out of those that are to be served.
func (f *Free) serve(without int) {
	f.granted = slices.DeleteFunc(f.granted[f.head:], func(n uint64) bool { return int(f.At(n).BU) == without })
	f.head = 0
}

// Turn implements Order.
func (f *Free) Turn() (Turn, uint64) {
	if f.head < len(f.granted) {
		return Send, f.granted[f.head]
	}
	if f.Open() > 0 {
		return ForGrant, 0
	}
	return ForToken, 0
}

// Sent implements Order.
func (f *Free) Sent(n uint64) {
	f.At(n).Stage = Sent
	// Moving the rest only when it is the smaller half makes a move per transfer, in the mean.
	if f.head++; 2*f.head >= len(f.granted) {
		f.granted, f.head = f.granted[:copy(f.granted, f.granted[f.head:])], 0
	}
}

// Passed implements Order; there are no phases.
func (f *Free) Passed() {}
