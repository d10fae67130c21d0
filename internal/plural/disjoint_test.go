package plural

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// overlaps tells whether two sources may have given the same number.
func (g SourceRange) overlaps(o SourceRange) bool { return g.First <= o.Last && o.First <= g.Last }

// TestApart finds a pair of different units that shares no number if there is one, and names both ranges.
func TestApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []SourceRange
		for i := range rapid.IntRange(0, 6).Draw(t, "sources") {
			first := rapid.Uint64Range(0, 20).Draw(t, "first")
			all = append(all, SourceRange{
				Source: fmt.Sprintf("tcp:%d", i),
				Unit:   rapid.IntRange(0, 2).Draw(t, "unit"),
				First:  first,
				Last:   first + rapid.Uint64Range(0, 20).Draw(t, "more"),
			})
		}
		said, is, right := DescribeDisjoint(all), false, false
		for _, a := range all {
			for _, b := range all {
				if a.Unit != b.Unit && !a.overlaps(b) {
					is = true
					right = right || said == DisjointText(a, b)
				}
			}
		}
		if (said != "") != is || is && !right {
			t.Fatalf("of %+v it says %q", all, said)
		}
	})
	said := DescribeDisjoint([]SourceRange{{"tcp:a", 0, 0, 9}, {"tcp:b", 1, 0, 7}, {"tcp:c", 1, 1_000_001, 1_000_005}})
	want := "sources tcp:a and tcp:c share no event number: tcp:a gave 0 to 9, tcp:c gave 1000001 to 1000005; "
	if !strings.HasPrefix(said, want) {
		t.Errorf("it says %q", said)
	}
}
