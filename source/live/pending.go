package live

import (
	"slices"
	"time"
)

// pendingFragment is a fragment that is in no place yet, and when it came.
type pendingFragment struct {
	FragmentRef
	arrived time.Duration
}

// pendingList is a few of them, of one source.
type pendingList []pendingFragment

func (l pendingList) includes(e uint64) bool {
	for i := range l {
		if l[i].Event == e {
			return true
		}
	}
	return false
}

// remove takes one out.
func (l *pendingList) remove(i int) pendingFragment {
	p := (*l)[i]
	*l = slices.Delete(*l, i, i+1)
	return p
}

// insert puts one in, in the order of their numbers.
func (l *pendingList) insert(p pendingFragment) {
	at := 0
	for at < len(*l) && (*l)[at].Event < p.Event {
		at++
	}
	*l = slices.Insert(*l, at, p)
}

// lowest is the index of the one with the lowest number, of those up to a number; -1 if there is none.
func (l pendingList) lowest(upTo uint64) int {
	least := -1
	for i := range l {
		if e := l[i].Event; e <= upTo && (least < 0 || e < l[least].Event) {
			least = i
		}
	}
	return least
}

// lowestNear is the lowest number that is so near an event; none if there is none.
func (l pendingList) lowestNear(e, within uint64) uint64 {
	best := noFragment
	for i := range l {
		if at := l[i].Event; distance(at, e) <= within {
			best = min(best, at)
		}
	}
	return best
}

// nearestBelow is the highest number below an event and so near it; none if there is none.
func (l pendingList) nearestBelow(e, within uint64) uint64 {
	best := noFragment
	for i := range l {
		if at := l[i].Event; at < e && e-at <= within && (best == noFragment || at > best) {
			best = at
		}
	}
	return best
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }
