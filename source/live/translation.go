package live

import "sort"

// Translation translates between the numbers by which events are matched and the event numbers of a front-end, where
// these differ: it is told by its own numbers what it may forget. The zero value is the beginning of a run. It has an
// entry for each fragment that was offered and is not safe, so the memory of the readout unit bounds it.
type Translation struct {
	entries []translated // in the order in which the fragments came
	first   int          // entries before are safe
	hasLast bool
	last    uint64 // event of the entry that was added last
	trusted uint64 // one above the highest event that others prove
	resume  uint64 // one above the last trusted event of a fragment that was accepted
	safe    uint64
}

// translated is a fragment that was offered.
type translated struct {
	ref, event, number uint64
	isTrusted          bool
	isOver             bool // it was given up
}

// maxTrustedGap is how many event numbers a front-end may leave out between two fragments for the second to prove the
// first.
const maxTrustedGap = 1024

// Add adds a fragment of a front-end's event that was offered under a number. Refs grow. An event number that follows
// neither the one before it nor the highest one so far may be wrong: it moves nothing. Two in a row above all others
// prove the second.
func (t *Translation) Add(ref, event, number uint64) {
	follows := func(from uint64) bool { return event >= from && event-from < maxTrustedGap }
	grows := t.hasLast && t.last >= t.trusted && event > t.last
	ok := !t.hasLast || follows(t.trusted) || event > t.trusted && (follows(t.last+1) || grows)
	if ok {
		t.trusted = event + 1
	}
	t.hasLast, t.last = true, event
	t.entries = append(t.entries, translated{ref: ref, event: event, number: number, isTrusted: ok})
}

// GiveUp notes that a fragment was given up, and returns its event, and whether the event came for the first time; ok
// is false if there is no such fragment.
func (t *Translation) GiveUp(ref uint64) (event uint64, isNew, ok bool) {
	l := t.entries[t.first:]
	i := sort.Search(len(l), func(i int) bool { return l[i].ref >= ref })
	if i == len(l) || l[i].ref != ref {
		return 0, false, false
	}
	l[i].isOver = true
	return l[i].event, l[i].isTrusted, true
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
	if n := len(t.entries); n > t.first && t.entries[n-1].event >= t.trusted {
		t.entries[n-1].isTrusted, t.trusted = true, t.entries[n-1].event+1
	}
}
