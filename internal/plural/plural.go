package plural

import (
	"fmt"
	"strconv"
)

// RangeText is a range: "5", or "5 to 7".
func RangeText(from, to uint64) string {
	if from == to {
		return strconv.FormatUint(from, 10)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

// NamedRange names a range of things: "source 5", or "sources 5 to 7".
func NamedRange(what string, from, to uint64) string {
	if from != to {
		what += "s"
	}
	return what + " " + RangeText(from, to)
}

// CountInRange names n things between the first and the last: "MEP 8", or "2 MEPs from 8 to 11".
func CountInRange(n uint64, what string, first, last uint64) string {
	if n == 1 && first == last {
		return NamedRange(what, first, last)
	}
	if n != 1 {
		what += "s"
	}
	if first == last {
		return fmt.Sprintf("%d %s at %d", n, what, first)
	}
	return fmt.Sprintf("%d %s from %d to %d", n, what, first, last)
}
