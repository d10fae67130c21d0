package cluster

import (
	"cmp"
	"slices"
	"strings"
)

// CompareNames orders names with their numbers: n2 before n10. Runs of digits compare by value, everything else by
// byte; names that differ only in leading zeros compare by byte, so that the order is total.
func CompareNames(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := countLeadingDigits(x), countLeadingDigits(y)
		if dx > 0 && dy > 0 {
			if c := compareNumbers(x[:dx], y[:dy]); c != 0 {
				return c
			}
			x, y = x[dx:], y[dy:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	if c := cmp.Compare(len(x), len(y)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// sortByRank sorts names in place: the rank of a node is its index.
func sortByRank(names []string) { slices.SortFunc(names, CompareNames) }

// countLeadingDigits counts the digits at the beginning of s.
func countLeadingDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// compareNumbers compares numbers of any length, in digits, by value.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
