package frames

import (
	"fmt"
	"slices"
)

// maxGiven is how many ranges of what was given up are remembered, each for its own. What does not fit is told as part
// of a wider one.
const maxGiven = 256

// given is a range of events of which fragments were given up.
type given struct {
	from, to uint64 // events, to is not one of them
	n        uint64 // fragments
	why      uint32 // a reason of the format
}

// givens are ranges in the order of their first events. The zero value has none. Their number is bounded, and the sum
// of their fragments is exact.
type givens []given

// add notes more of them. What touches a range of the same reason becomes part of it.
func (g *givens) add(x given) {
	if x.n == 0 || x.from >= x.to {
		return
	}
	l := *g
	i, _ := slices.BinarySearchFunc(l, x.from, func(e given, from uint64) int {
		if e.from <= from {
			return -1
		}
		return 1
	})
	if i > 0 && l[i-1].why == x.why && x.from <= l[i-1].to {
		i--
		l[i].to, l[i].n = max(l[i].to, x.to), l[i].n+x.n
	} else {
		l = slices.Insert(l, i, x)
	}
	for i+1 < len(l) && l[i+1].why == l[i].why && l[i+1].from <= l[i].to {
		l = join(l, i)
	}
	if len(l) > maxGiven {
		l = narrow(l)
	}
	*g = l
}

// join makes one range of two neighbours.
func join(l givens, i int) givens {
	a, b := l[i], l[i+1]
	if a.why != b.why {
		a.why = severalReasons
	}
	a.to, a.n = max(a.to, b.to), a.n+b.n
	l[i] = a
	return slices.Delete(l, i+1, i+2)
}

// narrow makes one range of the two that are nearest to each other.
func narrow(l givens) givens {
	best, gap := 0, uint64(noEvent)
	for i := range len(l) - 1 {
		if d := l[i+1].from - min(l[i+1].from, l[i].to); d < gap {
			best, gap = i, d
		}
	}
	return join(l, best)
}

// answer is how a front-end is told of a range.
func (x given) answer() answer {
	which := "of"
	if x.n < x.to-x.from {
		which = "among"
	}
	return answer{
		Code: gaveUp,
		A:    x.from,
		B:    x.to,
		C:    x.why,
		D:    uint32(min(x.n, 1<<32-1)),
		Sentence: fmt.Sprintf("%d fragments %s events %d to %d %s", x.n, which, x.from, x.to-1,
			reasonWords[x.why]),
	}
}
