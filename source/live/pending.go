package live

import (
	"slices"
	"time"
)

// pendingFragment is a fragment that is not in its place, and when it came.
type pendingFragment struct {
	FragmentRef
	arrived time.Duration
}

// pendingList is a few such fragments of one source.
type pendingList []pendingFragment

func (l pendingList) includes(e uint64) bool {
	for i := range l {
		if l[i].Event == e {
			return true
		}
	}
	return false
}

func (l *pendingList) remove(i int) pendingFragment {
	p := (*l)[i]
	*l = slices.Delete(*l, i, i+1)
	return p
}

// insert inserts a fragment in the order of event numbers.
func (l *pendingList) insert(p pendingFragment) {
	at := 0
	for at < len(*l) && (*l)[at].Event < p.Event {
		at++
	}
	*l = slices.Insert(*l, at, p)
}

// lowest returns the index of the fragment with the lowest number up to upTo; -1 if there is none.
func (l pendingList) lowest(upTo uint64) int {
	least := -1
	for i := range l {
		if e := l[i].Event; e <= upTo && (least < 0 || e < l[least].Event) {
			least = i
		}
	}
	return least
}

// lowestNear returns the lowest number at most within away from e; noFragment if there is none.
func (l pendingList) lowestNear(e, within uint64) uint64 {
	best := noFragment
	for i := range l {
		if at := l[i].Event; distance(at, e) <= within {
			best = min(best, at)
		}
	}
	return best
}

// nearestBelow returns the highest number below e and at most within away from it; noFragment if there is none.
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
