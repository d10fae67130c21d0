package plural

import "fmt"

// SourceRange is a source of a readout unit, and the lowest and the highest event number that it has sent.
type SourceRange struct {
	Source      string
	Unit        int
	First, Last uint64
}

// DisjointText says that two sources have no event number in common, which numbers they sent, and what to do.
func DisjointText(a, b SourceRange) string {
	return fmt.Sprintf("sources %s and %s share no event number: %s gave %d to %d, %s gave %d to %d; let both front-ends "+
		"count the same triggers, from the same number on", a.Source, b.Source, a.Source, a.First, a.Last, b.Source, b.First,
		b.Last)
}

// DescribeDisjoint looks for two sources of different units whose ranges do not overlap, and returns DisjointText of
// the pair that is farthest apart; "" if all ranges overlap. Its time is linear in the number of sources.
func DescribeDisjoint(all []SourceRange) string {
	if len(all) == 0 {
		return ""
	}
	low, high := all[0], all[0]
	for _, g := range all {
		if g.Last < low.Last {
			low = g
		}
		if g.First > high.First {
			high = g
		}
	}
	above, below := low, high // the highest of other units than low, the lowest of other units than high
	for _, g := range all {
		if g.Unit != low.Unit && (above.Unit == low.Unit || g.First > above.First) {
			above = g
		}
		if g.Unit != high.Unit && (below.Unit == high.Unit || g.Last < below.Last) {
			below = g
		}
	}
	switch { // if any pair is disjoint, one of these two is
	case low.Last < above.First && above.Unit != low.Unit:
		return DisjointText(low, above)
	case below.Last < high.First && below.Unit != high.Unit:
		return DisjointText(below, high)
	}
	return ""
}
