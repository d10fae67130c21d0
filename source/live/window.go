package live

import "time"

// window is the places of fragments by the numbers of their events, and how far events are decided and known.
//
//	taken         cut, not taken      decided          known          may be kept
//	──────┤low  ────────────────┤end ──────────┤decided ──────┤seen ─────────────┤ low + window
type window struct {
	mask      uint64
	alignLog2 uint8

	low          uint64 // events below are taken, or will never be kept
	decidedBelow uint64
	seenBelow    uint64          // events below are known to be
	placed       int             // fragments in places below seen
	firstSeen    []time.Duration // by event: when it, or a later one, first came
	having       []uint16        // by event: sources that have it
	bytes        []uint32        // by event: of its fragments, padded
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

// padded is how many bytes the data of a fragment take.
func (w *window) padded(size uint16) uint32 {
	unit := uint32(1)<<w.alignLog2 - 1
	return (uint32(size) + unit) &^ unit
}

// put counts a fragment that has its place now.
func (w *window) put(p FragmentRef) {
	i := p.Event & w.mask
	w.having[i]++
	w.bytes[i] += w.padded(p.Size)
	if p.Event < w.seenBelow {
		w.placed++
	}
}

// remove counts a fragment that has no place any more.
func (w *window) remove(p FragmentRef) {
	i := p.Event & w.mask
	w.having[i]--
	w.bytes[i] -= w.padded(p.Size)
	if p.Event < w.seenBelow {
		w.placed--
	}
}

// extendSeen notes that there are events below to, which lie in the window, and those that follow them without a gap.
func (w *window) extendSeen(to uint64, now time.Duration) {
	for ; w.seenBelow < to || !w.isBeyond(w.seenBelow) && w.having[w.seenBelow&w.mask] > 0; w.seenBelow++ {
		w.firstSeen[w.seenBelow&w.mask] = now
		w.placed += int(w.having[w.seenBelow&w.mask])
	}
}

// raiseLow has the window begin no lower than at a number.
func (w *window) raiseLow(to uint64) {
	w.low = max(w.low, to)
	w.seenBelow, w.decidedBelow = max(w.seenBelow, w.low), max(w.decidedBelow, w.low)
}

// firstHeld is the first event of [from, below) that a source has; below, if there is none.
func (w *window) firstHeld(from, below uint64) uint64 {
	for from < below && w.having[from&w.mask] == 0 {
		from++
	}
	return from
}

// startsEmptyRun tells that no source has what is decided next, nor much behind it.
func (w *window) startsEmptyRun() bool {
	below := min(w.decidedBelow+minEmptyRun, w.seenBelow)
	return below-w.decidedBelow == minEmptyRun && w.firstHeld(w.decidedBelow, below) == below
}

// minEmptyRun is how many numbers in a row that no source here has end a MEP: they are no events, and would be events
// of missing fragments within one.
const minEmptyRun = 16
