package frames

import (
	"fmt"
	"slices"
)

// maxGivenUpRanges bounds the ranges that are remembered. Beyond it, neighbouring ranges are merged and told as one
// wider range.
const maxGivenUpRanges = 256

// givenUpRange is a range of events whose fragments were given up.
type givenUpRange struct {
	from, to uint64 // events [from, to)
	count    uint64 // fragments
	reason   uint32 // a reason of the format (docs/format/frames.md)
}

// givenUpRanges are ranges in the order of their first events. The zero value has none. Their number is bounded, and
// the sum of their counts is exact.
type givenUpRanges []givenUpRange

// add adds a range. If it touches a range with the same reason, they become one.
func (g *givenUpRanges) add(x givenUpRange) {
	if x.count == 0 || x.from >= x.to {
		return
	}
	l := *g
	i, _ := slices.BinarySearchFunc(l, x.from, func(e givenUpRange, from uint64) int {
		if e.from <= from {
			return -1
		}
		return 1
	})
	if i > 0 && l[i-1].reason == x.reason && x.from <= l[i-1].to {
		i--
		l[i].to, l[i].count = max(l[i].to, x.to), l[i].count+x.count
	} else {
		l = slices.Insert(l, i, x)
	}
	for i+1 < len(l) && l[i+1].reason == l[i].reason && l[i+1].from <= l[i].to {
		l = mergeAt(l, i)
	}
	if len(l) > maxGivenUpRanges {
		l = mergeNearest(l)
	}
	*g = l
}

// mergeAt merges range i with the next one.
func mergeAt(l givenUpRanges, i int) givenUpRanges {
	a, b := l[i], l[i+1]
	if a.reason != b.reason {
		a.reason = reasonSeveral
	}
	a.to, a.count = max(a.to, b.to), a.count+b.count
	l[i] = a
	return slices.Delete(l, i+1, i+2)
}

// mergeNearest merges the two neighbours with the smallest gap between them.
func mergeNearest(l givenUpRanges) givenUpRanges {
	best, gap := 0, uint64(noEvent)
	for i := range len(l) - 1 {
		if d := l[i+1].from - min(l[i+1].from, l[i].to); d < gap {
			best, gap = i, d
		}
	}
	return mergeAt(l, best)
}

// answer returns the message that tells a front-end of a range.
func (x givenUpRange) answer() answer {
	which := "of"
	if x.count < x.to-x.from {
		which = "among"
	}
	return answer{
		Code: codeGivenUp,
		A:    x.from,
		B:    x.to,
		C:    x.reason,
		D:    uint32(min(x.count, 1<<32-1)),
		Sentence: fmt.Sprintf("%d fragments %s events %d to %d %s", x.count, which, x.from, x.to-1,
			reasonWords[x.reason]),
	}
}

// noteBelowResume notes that the front-end sent an event below the one from which it was asked to send: it counts anew
// from a lower number, and must be told.
func (s *session) noteBelowResume(fr *frame) {
	if fr.Event >= s.resumeFrom {
		return
	}
	if s.belowResumeCount++; s.version > version1 {
		s.belowRanges.add(givenUpRange{
			from:   fr.Event,
			to:     fr.Event + 1,
			count:  1,
			reason: reasonBackwards,
		})
	}
}
