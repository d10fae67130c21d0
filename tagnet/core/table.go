package core

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// An Allocator is made of layers, each of which knows those before it: base, table (the MEPs that were issued), inputs
// (what readout units hold), builders (which slots are free), Allocator (which MEP goes where). All are one value.

// base is what all layers share: the view, its state, and the counters.
type base struct {
	cfg                       Config
	started, paused, draining bool
	counters                  *Counters
}

func (b *base) refuse(r Reason, unit, format string, args ...any) error {
	b.counters.Refused[r]++
	return &inputError{Reason: r, Unit: unit, Detail: fmt.Sprintf(format, args...)}
}

// table keeps what the scheduler knows of the MEPs that were issued: a record of each, the cycles that wait for them,
// and the MEPs that the watermark has passed over.
//
// It keeps a builder unit that has stopped from holding up the others. Two things would make them wait for it:
//
//   - cycles in flight, under Skip: each MEP of the unit holds one of LookAhead cycles open. So the unit is left
//     behind: its MEPs are taken out of their cycles;
//   - the released watermark, which stops at the unit's oldest MEP, and with it the records and the memory of the
//     readout units. So the watermark passes over these MEPs: from then on they are held up, and listed beside the
//     watermark. Under Wait this serves a builder unit that discards MEPs which it has no time for: all its MEPs get
//     outcomes but the one that its sink is stuck with.
//
// Both are bounded: a builder unit has at most creditPerBU MEPs.
type table struct {
	base

	placesPerCycle int    // immutable
	recordMask     uint64 // Window - 1; immutable

	nextMEP       uint64  // number of the first MEP that was never issued
	released      uint64  // every MEP below has its outcome, but those held up
	shortMEP      uint64  // the MEP with fewer events than Packing; NoMEP while none is known
	shortMEPLacks uint32  // events that the short MEP lacks
	cutter        *cutter // nil where every MEP but the last has Packing events

	records []mepRecord // of MEP k at k & recordMask, for k in [released, nextMEP)
	reissue queue       // MEPs that wait to be issued again
	heldUp  heldUpMEPs  // MEPs below released that have no outcome
	unbuilt Unbuilt     // MEPs below released that have another outcome than Built

	groups  groups
	tagRing *tagRing // nil without a ring

	// tokens without outcome, for each cycle in flight, but for those of builder units left behind
	openTokens []uint32
	freeCycles []uint32 // indices into openTokens

	depths  struct{ ready, cycles, window, reissue depth }
	cleared *tagnetv1.Cleared // the last clear of the registers; nil if there was none
}

// mepRecord is the last token of a MEP, and what became of it.
type mepRecord struct {
	slot     uint32
	cycle    uint32 // index into openTokens, or noCycle
	cycleLow uint32 // low half of the number of its cycle
	bu       uint16
	attempt  uint8
	state    recordState
}

type recordState uint8

const (
	recordUnused recordState = iota
	recordInFlight
	recordToReissue
	recordBuilt // this and all that follow: the MEP has its outcome
	recordDiscarded
	recordRejected
	recordAbandoned
)

// isFinal tells that the MEP has its outcome.
func (s recordState) isFinal() bool { return s >= recordBuilt }

// stateOf is the state of a MEP with an outcome.
func stateOf(o Outcome) recordState {
	switch o {
	case Built:
		return recordBuilt
	case Discarded:
		return recordDiscarded
	case Rejected:
		return recordRejected
	}
	return recordAbandoned
}

// Unbuilt counts MEPs whose outcome is another than Built.
type Unbuilt struct {
	Discarded, EventsDiscarded, Rejected, EventsRejected, Abandoned, EventsAbandoned uint64
}

// add counts a MEP with an outcome.
func (u *Unbuilt) add(s recordState, events uint64) {
	switch s {
	case recordDiscarded:
		u.Discarded++
		u.EventsDiscarded += events
	case recordRejected:
		u.Rejected++
		u.EventsRejected += events
	case recordAbandoned:
		u.Abandoned++
		u.EventsAbandoned += events
	}
}

// meps is how many MEPs there are.
func (u *Unbuilt) meps() uint64 { return u.Discarded + u.Rejected + u.Abandoned }

// events is how many events these MEPs have.
func (u *Unbuilt) events() uint64 { return u.EventsDiscarded + u.EventsRejected + u.EventsAbandoned }

// noCycle stands in the record of a MEP that no cycle waits for.
const noCycle = math.MaxUint32

func newTable(cfg Config) table {
	t := table{
		base: base{cfg: cfg, counters: &Counters{
			WaitsFor: make([]uint64, numberOfWaitReasons),
			Refused:  make([]uint64, numberOfReasons),
		}},
		placesPerCycle: len(cfg.BUs),
		recordMask:     uint64(cfg.Window - 1),
		nextMEP:        cfg.FirstMEP,
		released:       cfg.FirstMEP,
		shortMEP:       NoMEP,
		records:        make([]mepRecord, cfg.Window),
		reissue:        newQueue(cfg.maxUnfinished()),
		openTokens:     make([]uint32, cfg.maxCyclesInFlight()),
		freeCycles:     make([]uint32, cfg.maxCyclesInFlight()),
	}
	for i := range t.freeCycles {
		t.freeCycles[i] = uint32(i)
	}
	window := uint64(cfg.Window)
	t.depths.ready, t.depths.window = newDepth(window), newDepth(window)
	t.depths.reissue = newDepth(uint64(cfg.maxUnfinished()))
	t.depths.cycles = newDepth(uint64(len(t.openTokens)))
	if cfg.Live {
		t.cutter = newCutter(&cfg)
	}
	return t
}

// heldUpMEPs are the MEPs that the watermark has passed over, in order, with their records and numbers of events.
type heldUpMEPs struct {
	meps    []uint64
	records []mepRecord
	events  []uint64
	changes uint64
}

func (h *heldUpMEPs) add(mep uint64, r mepRecord, events uint64) {
	h.meps, h.records, h.events = append(h.meps, mep), append(h.records, r), append(h.events, events)
	h.changes++
}

// drop removes the MEP at index i, which has its outcome.
func (h *heldUpMEPs) drop(i int) {
	h.meps, h.records = slices.Delete(h.meps, i, i+1), slices.Delete(h.records, i, i+1)
	h.events = slices.Delete(h.events, i, i+1)
	h.changes++
}

// prune removes all MEPs that have their outcome.
func (h *heldUpMEPs) prune() {
	for i := len(h.meps) - 1; i >= 0; i-- {
		if h.records[i].state.isFinal() {
			h.drop(i)
		}
	}
}

// recordOf is the record of an issued MEP. A MEP whose record is no longer kept has its outcome, so its record is
// final.
func (t *table) recordOf(mep uint64) *mepRecord {
	if mep >= t.released {
		return &t.records[mep&t.recordMask]
	}
	if i, ok := slices.BinarySearch(t.heldUp.meps, mep); ok {
		return &t.heldUp.records[i]
	}
	return &mepRecord{state: recordBuilt}
}

// forEachUnfinished calls f with every MEP that has no outcome, in order. f may record the outcome.
func (t *table) forEachUnfinished(f func(mep uint64, r *mepRecord)) {
	for i, mep := range t.heldUp.meps {
		f(mep, &t.heldUp.records[i])
	}
	t.heldUp.prune()
	for k := t.released; k < t.nextMEP; k++ {
		if r := &t.records[k&t.recordMask]; !r.state.isFinal() {
			f(k, r)
		}
	}
}

// advanceReleased moves the watermark over every MEP that has its outcome. It also passes over MEPs without one, as
// long as the MEPs that readout units must keep would otherwise be more than can be in flight.
func (t *table) advanceReleased() {
	for t.released < t.nextMEP {
		r := &t.records[t.released&t.recordMask]
		if !r.state.isFinal() {
			if len(t.heldUp.meps)+int(t.nextMEP-t.released) <= t.maxBeyondReleased() {
				return
			}
			t.heldUp.add(t.released, *r, t.eventCount(t.released))
		}
		t.unbuilt.add(r.state, t.eventCount(t.released))
		r.state = recordUnused
		t.released++
	}
}

// maxBeyondReleased is how many MEPs readout units keep at most, those beyond the watermark and those held up together,
// before the watermark passes over a MEP that holds it up. The limit is what can be in flight: readout units have room
// for twice that of small MEPs. With a higher limit they would fill up behind a builder unit that has stopped. With a
// window of a cycle or less the watermark passes over no MEP.
func (t *table) maxBeyondReleased() int {
	if t.cfg.Window <= t.placesPerCycle {
		return t.cfg.Window
	}
	return min(t.cfg.maxUnfinished(), t.cfg.Window-t.placesPerCycle)
}

// maxCyclesBehind is how many cycles a readout unit that has missed none can be behind: twice those in flight, under
// Wait twice that again: builder units left behind may hold as many. Under Skip there are more cycles of which only
// such units have MEPs; each has one token in flight at least.
func (t *table) maxCyclesBehind() int {
	n := 4 * len(t.openTokens)
	if t.cfg.NoSlotPolicy == Skip {
		n = max(n, t.cfg.LookAhead*(t.placesPerCycle+2))
	}
	return n
}

// noCycleAwaited tells that the others wait for no cycle in flight.
func (t *table) noCycleAwaited() bool { return len(t.freeCycles) == len(t.openTokens) }

// InFlight is the number of issued MEPs without an outcome, including those that wait to be issued again.
func (t *table) InFlight() int {
	n := t.counters
	return int(n.Issued - n.Built - n.Discarded - n.Rejected - n.Abandoned)
}

// tokensInFlight is the number of tokens without an outcome.
func (t *table) tokensInFlight() int { return t.InFlight() - t.reissue.len() }

// eventCount is the number of events of MEP k that the readout units reported; they have done so before k is issued.
func (t *table) eventCount(k uint64) uint64 {
	if k < t.released {
		if i, ok := slices.BinarySearch(t.heldUp.meps, k); ok {
			return t.heldUp.events[i]
		}
	}
	if t.cutter != nil {
		return uint64(t.cutter.cutOf(k).Events)
	}
	if k == t.shortMEP {
		return uint64(t.cfg.Packing) - uint64(t.shortMEPLacks)
	}
	return uint64(t.cfg.Packing)
}

// leaveCycle takes a token in flight out of its cycle and its group.
func (t *table) leaveCycle(r *mepRecord) {
	if t.tagRing == nil {
		t.groups.endEvent(int(r.bu))
	}
	t.releaseFromCycle(r)
}

// releaseFromCycle takes a token out of its cycle, which then does not wait for it.
func (t *table) releaseFromCycle(r *mepRecord) {
	if r.cycle == noCycle {
		return
	}
	if t.openTokens[r.cycle]--; t.openTokens[r.cycle] == 0 {
		t.freeCycles = append(t.freeCycles, r.cycle)
		t.depths.cycles.set(uint64(len(t.openTokens) - len(t.freeCycles)))
	}
	r.cycle = noCycle
}

// recordOutcome writes the one outcome of a MEP into its record, and counts it for the builder unit that reported it.
func (t *table) recordOutcome(mep uint64, r *mepRecord, o Outcome, b *BUCounters) {
	r.state = stateOf(o)
	c, events := t.counters, t.eventCount(mep)
	if mep < t.released {
		t.unbuilt.add(r.state, events)
	}
	switch o {
	case Built:
		c.Built++
		c.EventsBuilt += events
		b.Built++
		b.EventsBuilt += events
	case Discarded:
		c.Discarded++
		c.EventsDiscarded += events
		b.Discarded++
	case Rejected:
		c.Rejected++
		c.EventsRejected += events
		b.Rejected++
	default:
		c.Abandoned++
		c.EventsAbandoned += events
	}
}

// queue holds a bounded number of values, first in first out.
type queue struct {
	entries    []uint64 // value n at n mod len(entries)
	head, tail uint64   // ever-growing; tail - head entries
}

func newQueue(capacity int) queue {
	n := 1
	for n < capacity {
		n <<= 1
	}
	return queue{entries: make([]uint64, n)}
}

func (q *queue) len() int { return int(q.tail - q.head) }

func (q *queue) clear() { q.head, q.tail = 0, 0 }

func (q *queue) push(v uint64) {
	q.entries[q.tail&uint64(len(q.entries)-1)] = v
	q.tail++
}

func (q *queue) pop() uint64 {
	v := q.entries[q.head&uint64(len(q.entries)-1)]
	q.head++
	return v
}

// depth is the fill level of a queue with its high-water marks (TagNet-farm §VII.C, registers CSR 8, 11 and 12 of the
// scheduler), kept in the message that reports them.
type depth struct {
	*tagnetv1.Depth
	marks        [5]uint64 // fill levels of the marks; the last is the capacity
	marksReached uint8     // marks at or below Now
}

func newDepth(capacity uint64) depth {
	d := depth{Depth: &tagnetv1.Depth{Capacity: capacity, Crossed: make([]uint64, 4)}}
	for i, eighths := range [5]uint64{2, 4, 6, 7, 8} {
		// Rounded up, so that the mark says "at least this share"; capacity is far below 2^61.
		d.marks[i] = max(1, (capacity*eighths+7)/8)
	}
	return d
}

func (d *depth) set(v uint64) {
	if v == d.Now {
		return
	}
	d.Now = v
	if v > d.Max {
		d.Max = v
	}
	for d.marksReached < 5 && v >= d.marks[d.marksReached] {
		if d.marksReached == 4 {
			d.Full++
		} else {
			d.Crossed[d.marksReached]++
			d.Usage |= 1 << d.marksReached // the code of register ev_buff_fifo_usedw_log (TagNet-farm §VII.C)
		}
		d.marksReached++
	}
	for d.marksReached > 0 && v < d.marks[d.marksReached-1] {
		d.marksReached--
	}
}

// clear begins the marks anew: the depth has been no other than now.
func (d *depth) clear() {
	d.Max, d.Full, d.Usage = d.Now, 0, 1<<min(d.marksReached, 4)-1
	clear(d.Crossed)
}

// message is a copy of the current figures.
func (d *depth) message() *tagnetv1.Depth { return proto.CloneOf(d.Depth) }
