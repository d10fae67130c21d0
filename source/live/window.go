package live

import "time"

// window holds the places of fragments by event number, and how far events are decided and known to exist.
//
//	taken         cut, not taken      decided          known          may be kept
//	──────┤low  ────────────────┤end ──────────┤decided ──────┤seen ─────────────┤ low + window
type window struct {
	mask      uint64
	alignLog2 uint8

	low          uint64 // events below are taken, or are no longer kept
	decidedBelow uint64
	seenBelow    uint64          // events below are known to exist
	placed       int             // fragments in places below seenBelow
	firstSeen    []time.Duration // by event: when it or a later event first came
	having       []uint16        // by event: sources that have a fragment of it
	bytes        []uint32        // by event: bytes of its fragments, padded
}

func newWindow(events int, alignLog2 uint8) window {
	return window{
		mask:      uint64(events) - 1,
		alignLog2: alignLog2,
		firstSeen: make([]time.Duration, events),
		having:    make([]uint16, events),
		bytes:     make([]uint32, events),
	}
}

func (w *window) isBeyond(e uint64) bool { return e >= w.low && e-w.low > w.mask }

// padded returns how many bytes the data of a fragment take in an MFP.
func (w *window) padded(size uint32) uint32 {
	unit := uint32(1)<<w.alignLog2 - 1
	return (size + unit) &^ unit
}

// put counts a fragment that enters its place.
func (w *window) put(p FragmentRef) {
	i := p.Event & w.mask
	w.having[i]++
	w.bytes[i] += w.padded(p.Size)
	if p.Event < w.seenBelow {
		w.placed++
	}
}

// remove counts a fragment that leaves its place.
func (w *window) remove(p FragmentRef) {
	i := p.Event & w.mask
	w.having[i]--
	w.bytes[i] -= w.padded(p.Size)
	if p.Event < w.seenBelow {
		w.placed--
	}
}

// extendSeen notes that the events below to exist, which lie in the window, and the events with fragments that follow
// them without a gap.
func (w *window) extendSeen(to uint64, now time.Duration) {
	for ; w.seenBelow < to || !w.isBeyond(w.seenBelow) && w.having[w.seenBelow&w.mask] > 0; w.seenBelow++ {
		w.firstSeen[w.seenBelow&w.mask] = now
		w.placed += int(w.having[w.seenBelow&w.mask])
	}
}

// raiseLow raises the beginning of the window to at least to.
func (w *window) raiseLow(to uint64) {
	w.low = max(w.low, to)
	w.seenBelow, w.decidedBelow = max(w.seenBelow, w.low), max(w.decidedBelow, w.low)
}

// firstHeld returns the first event of [from, below) with a fragment; below, if there is none.
func (w *window) firstHeld(from, below uint64) uint64 {
	for from < below && w.having[from&w.mask] == 0 {
		from++
	}
	return from
}

// startsEmptyRun says that no source has the next minEmptyRun events to be decided.
func (w *window) startsEmptyRun() bool {
	below := min(w.decidedBelow+minEmptyRun, w.seenBelow)
	return below-w.decidedBelow == minEmptyRun && w.firstHeld(w.decidedBelow, below) == below
}

// minEmptyRun is how many numbers in a row without a fragment end a MEP: no such events exist, and within a MEP they
// would be events of missing fragments.
const minEmptyRun = 16
