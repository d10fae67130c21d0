package live

import "sort"

// Translation translates between the numbers by which events are matched and the event numbers of a front-end, where
// these differ: it is told by its own numbers what it may forget. The zero value is the beginning of a run. It has an
// entry for each fragment that waits for its outcome, so the memory of the readout unit bounds them, and at most twice
// as many others and sparedOver.
type Translation struct {
	entries []translated // in the order in which the fragments came
	first   int          // entries before are safe
	over    int          // entries from first on that were given up
	hasLast bool
	last    uint64 // event of the entry that was added last
	leaps   int    // how many numbers in a row leapt, each above the one before and above all that are proven
	trusted uint64 // one above the highest event that others prove
	resume  uint64 // one above the last trusted event of a fragment that was accepted
	safe    uint64
}

// translated is a fragment that was offered, or several in a row that were given up.
type translated struct {
	ref, event, number uint64
	isTrusted          bool
	isOver             bool // it was given up
}

const (
	// maxTrustedGap is how many event numbers a front-end may leave out between two fragments for the second to prove
	// the first.
	maxTrustedGap = 1024
	// provingLeaps is how many numbers in a row must leap, each above the one before, until the last but one is proven: of
	// so many numbers made at random one in 24 times.
	provingLeaps = 4
	// sparedOver is how many given-up entries are kept apart whatever the others are.
	sparedOver = 64
)

// Add adds a fragment of a front-end's event that was offered under a number. Refs grow. An event number that follows
// neither the one before it nor the highest one so far may be wrong: it moves nothing. The one behind it proves the
// second of two that follow each other. Where a front-end leaves out many numbers each time, provingLeaps in a row
// prove all but the last.
func (t *Translation) Add(ref, event, number uint64) {
	follows := func(from uint64) bool { return event >= from && event-from < maxTrustedGap }
	leapt := t.hasLast && t.last >= t.trusted && event > t.last
	ok := !t.hasLast || follows(t.trusted) || event > t.trusted && follows(t.last+1)
	switch {
	case ok:
		t.leaps, t.trusted = 0, event+1
	case event < t.trusted:
		t.leaps = 0
	case !leapt:
		t.leaps = 1
	default:
		if t.leaps++; t.leaps >= provingLeaps {
			t.trustLatest()
		}
	}
	t.hasLast, t.last = true, event
	t.entries = append(t.entries, translated{ref: ref, event: event, number: number, isTrusted: ok})
}

// trustLatest trusts the entry that was added last.
func (t *Translation) trustLatest() {
	t.trusted = t.last + 1
	if n := len(t.entries); n > t.first {
		t.entries[n-1].isTrusted = true
		return
	}
	t.safe = max(t.safe, t.trusted) // SafeEvent has passed it
	t.resume = max(t.resume, t.safe)
}

// GiveUp notes that a fragment was given up, and returns its event, and whether the event came for the first time; ok
// is false if there is no such fragment.
func (t *Translation) GiveUp(ref uint64) (event uint64, isNew, ok bool) {
	l := t.entries[t.first:]
	i := sort.Search(len(l), func(i int) bool { return l[i].ref >= ref })
	if i == len(l) || l[i].ref != ref || l[i].isOver {
		return 0, false, false
	}
	event, isNew = l[i].event, l[i].isTrusted
	l[i].isOver = true
	if t.over++; t.over > 2*(len(l)-t.over)+sparedOver {
		t.join()
	}
	return event, isNew, true
}

// join makes one entry of those in a row that were given up. The last one stays as it is: what comes may prove it.
func (t *Translation) join() {
	kept := t.entries[:0]
	t.over = 0
	for i, e := range t.entries[t.first:] {
		if n := len(kept); e.isOver && n > 0 && kept[n-1].isOver && t.first+i < len(t.entries)-1 {
			if e.isTrusted { // trusted events grow
				kept[n-1].event, kept[n-1].isTrusted = e.event, true
			}
			continue
		}
		if e.isOver {
			t.over++
		}
		kept = append(kept, e)
	}
	t.entries, t.first = kept, 0
}

// ResumeEvent returns the event from which the front-end is to send, when fragments are accepted below a number.
func (t *Translation) ResumeEvent(next uint64) uint64 {
	for i := len(t.entries) - 1; i >= t.first; i-- {
		if e := &t.entries[i]; e.isTrusted && (e.isOver || e.number < next) {
			t.resume = max(t.resume, e.event+1)
			break
		}
	}
	return t.resume
}

// SafeEvent returns the event below which each fragment has its outcome, when all numbers below one have it. What was
// given up must have been noted.
func (t *Translation) SafeEvent(below uint64) uint64 {
	for ; t.first < len(t.entries); t.first++ {
		e := &t.entries[t.first]
		if !e.isOver && e.number >= below {
			break
		}
		if e.isOver {
			t.over--
		}
		if e.isTrusted {
			t.safe = max(t.safe, e.event+1)
			t.resume = max(t.resume, t.safe)
		}
	}
	if t.first > len(t.entries)/2 {
		t.entries = t.entries[:copy(t.entries, t.entries[t.first:])]
		t.first = 0
	}
	return t.safe
}

// TrustLast says that nothing comes any more that could prove the event number of the last fragment: it is right if it
// lies above those before it.
func (t *Translation) TrustLast() {
	if t.hasLast && t.last >= t.trusted {
		t.trustLatest()
	}
}
