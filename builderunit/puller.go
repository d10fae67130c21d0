package builderunit

import "slices"

// Pull says how a builder unit requests the parts of a MEP. The zero value requests all parts at once, as soon as their
// sizes are known.
type Pull struct {
	// RequestCredit is how many requests may be without an answer, over all MEPs. Zero: any number. With one it is the
	// collector of ATLAS, which asks a source when it has the data of the last one.
	RequestCredit int
	// FirstUnit is the readout unit that is asked first; the others follow in the order of their indices, round to the
	// first. Different values keep the builder units from all asking the same readout unit.
	FirstUnit int
	// RegionUnits are the readout units of the region of interest: their parts are requested first, and decide whether the
	// other parts are requested at all. Empty: no decision.
	RegionUnits []int
	// SlotsPerRelease is how many slots are freed together while other MEPs are under way. Zero: each at once.
	SlotsPerRelease int
}

// A puller is the pure core that turns MEPs with known sizes into requests: the oldest MEP first, one readout unit
// after the other, never more than its credit at a time. It belongs to an Assembler.
type puller struct {
	// immutable after newPuller
	ruOrder       []int // readout units in the order of requests, those of the region of interest first
	regionSize    int   // how many readout units are asked before the decision; all if there is no decision to take
	requestCredit int

	// MEPs with parts to be requested, oldest first. With some tens of slots, moving the rest costs less than any
	// structure.
	pendingMEPs       []pendingMEP
	nextIndex         []int // by slot: index in ruOrder of the next request
	outstandingBySlot []int // by slot: requests without an answer
	outstanding       int   // requests without an answer
	outstandingHigh   int   // highest value of outstanding so far
}

// pendingMEP is a MEP in the queue.
type pendingMEP struct {
	mep  uint64
	slot int
}

func newPuller(p Pull, rus, slots int) puller {
	q := puller{
		requestCredit:     p.RequestCredit,
		pendingMEPs:       make([]pendingMEP, 0, slots),
		nextIndex:         make([]int, slots),
		outstandingBySlot: make([]int, slots),
		ruOrder:           make([]int, 0, rus),
	}
	if q.requestCredit == 0 {
		q.requestCredit = rus * slots
	}
	round := func(wanted bool) {
		for i := range rus {
			if ru := (p.FirstUnit + i) % rus; slices.Contains(p.RegionUnits, ru) == wanted {
				q.ruOrder = append(q.ruOrder, ru)
			}
		}
	}
	round(true)
	if q.regionSize = len(q.ruOrder); q.regionSize == 0 {
		q.regionSize = rus
	}
	round(false)
	return q
}

// add adds a MEP whose sizes are known.
func (q *puller) add(slot int, mep uint64) {
	q.nextIndex[slot], q.outstandingBySlot[slot] = 0, 0
	q.enqueue(slot, mep)
}

// enqueue puts a MEP among those that wait, by its age.
func (q *puller) enqueue(slot int, mep uint64) {
	i := len(q.pendingMEPs)
	for i > 0 && q.pendingMEPs[i-1].mep > mep {
		i--
	}
	q.pendingMEPs = slices.Insert(q.pendingMEPs, i, pendingMEP{mep, slot})
}

// nextRequest returns the next request; false if the credit is used up, or if no part is left to request.
func (q *puller) nextRequest() (slot, ru int, ok bool) {
	if q.outstanding >= q.requestCredit || len(q.pendingMEPs) == 0 {
		return 0, 0, false
	}
	slot = q.pendingMEPs[0].slot
	ru = q.ruOrder[q.nextIndex[slot]]
	q.nextIndex[slot]++
	q.outstandingBySlot[slot]++
	q.outstanding++
	q.outstandingHigh = max(q.outstandingHigh, q.outstanding)
	if n := q.nextIndex[slot]; n == len(q.ruOrder) || n == q.regionSize {
		q.pendingMEPs = slices.Delete(q.pendingMEPs, 0, 1)
	}
	return slot, ru, true
}

// completeRequest notes that a requested part is in place. It returns true when that completes the region of interest,
// and more parts could be requested.
func (q *puller) completeRequest(slot int) bool {
	q.outstandingBySlot[slot]--
	q.outstanding--
	return q.outstandingBySlot[slot] == 0 && q.nextIndex[slot] == q.regionSize && q.regionSize < len(q.ruOrder)
}

// drop drops a MEP and the requests for its parts.
func (q *puller) drop(slot int) {
	q.outstanding -= q.outstandingBySlot[slot]
	q.outstandingBySlot[slot] = 0
	q.pendingMEPs = slices.DeleteFunc(q.pendingMEPs, func(p pendingMEP) bool { return p.slot == slot })
}

// AcceptShare decides like a trigger that accepts a share of all MEPs, chosen by their numbers and the seed.
func AcceptShare(share float64, seed uint64) func(mep uint64) bool {
	return func(mep uint64) bool {
		// The finalizer of splitmix64, whose output is equidistributed; 53 bits of it are a number in [0, 1).
		z := (mep+1)*0x9e3779b97f4a7c15 + seed*0xd1b54a32d192ed03
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return float64((z^z>>31)>>11)/(1<<53) < share
	}
}
