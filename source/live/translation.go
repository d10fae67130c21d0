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
	isAgain bool   // the entry that was added last has the event of the one before
	last    uint64 // event of the entry that was added last
	leaps   int    // how many numbers in a row leapt, each above the one before and above all that are proven
	lastRef uint64 // of that entry
	// lastIsOther says that the entry that was added last was given up as the repetition of an event which it is not, if
	// its event number is right.
	lastIsOther bool
	trusted     uint64 // one above the highest event that others prove
	resume      uint64 // one above the last trusted event of a fragment that was accepted
	safe        uint64
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
// prove all but the last. It returns the event of a fragment that was given up as a repetition (NoteRepeat) if that is
// another event, as now is proven.
func (t *Translation) Add(ref, event, number uint64) (other uint64, isOther bool) {
	follows := func(from uint64) bool { return event >= from && event-from < maxTrustedGap }
	leapt := t.hasLast && t.last >= t.trusted && event > t.last
	ok := !t.hasLast || follows(t.trusted) || event > t.trusted && follows(t.last+1)
	other, isOther = t.last, t.lastIsOther && t.last >= t.trusted
	switch {
	case ok:
		isOther = isOther && event > t.last && follows(t.last+1)
		t.leaps, t.trusted = 0, event+1
	case event < t.trusted:
		t.leaps, isOther = 0, false
	case !leapt:
		t.leaps, isOther = 1, false
	default:
		if t.leaps++; t.leaps >= provingLeaps {
			t.trustLatest()
		} else {
			isOther = false
		}
	}
	t.lastIsOther, t.isAgain = false, t.hasLast && t.last == event
	t.hasLast, t.last, t.lastRef = true, event, ref
	t.entries = append(t.entries, translated{ref: ref, event: event, number: number, isTrusted: ok})
	return other, isOther
}

// NoteRepeat notes that the fragment that was added last was given up as a repetition, and that its event number is not
// proven: it may be another event, under the number of one that is here.
func (t *Translation) NoteRepeat(ref uint64) { t.lastIsOther = ref == t.lastRef && !t.isAgain }

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
// lies above those before it. It returns what Add does.
func (t *Translation) TrustLast() (other uint64, isOther bool) {
	if t.hasLast && t.last >= t.trusted {
		other, isOther = t.last, t.lastIsOther
		t.lastIsOther = false
		t.trustLatest()
	}
	return other, isOther
}
