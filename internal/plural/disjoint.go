package plural

import "fmt"

// SourceRange is a source of a readout unit, and the lowest and the highest number of an event that it gave.
type SourceRange struct {
	Source      string
	Unit        int
	First, Last uint64
}

// DisjointText says that two sources have no number in common, what they gave, and what to do.
func DisjointText(a, b SourceRange) string {
	return fmt.Sprintf("sources %s and %s share no event number: %s gave %d to %d, %s gave %d to %d; let both front-ends "+
		"count the same triggers, from the same number on", a.Source, b.Source, a.Source, a.First, a.Last, b.Source, b.First,
		b.Last)
}

// DescribeDisjoint says of two sources of different units that they share no number, the pair that is farthest apart;
// "" if each may share one with each. It takes each source three times, however many there are.
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
	above, below := low, high // of other units than low and high
	for _, g := range all {
		if g.Unit != low.Unit && (above.Unit == low.Unit || g.First > above.First) {
			above = g
		}
		if g.Unit != high.Unit && (below.Unit == high.Unit || g.Last < below.Last) {
			below = g
		}
	}
	switch { // a pair that is apart has one like these that is, too
	case low.Last < above.First && above.Unit != low.Unit:
		return DisjointText(low, above)
	case below.Last < high.First && below.Unit != high.Unit:
		return DisjointText(below, high)
	}
	return ""
}
