package decimal

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// SizeUnits are the units of sizes in bytes: kB, MB, GB, TB powers of 1000, KiB, MiB, GiB, TiB powers of 1024. The
// first four are the binary ones, the largest first.
var SizeUnits = []struct {
	Name string
	Size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// Size reads a size in bytes, a number with a unit or without one: "4MiB", "1.5GB", "4096". Case and a space before the
// unit do not matter. A fraction is allowed; the number of bytes is rounded down.
func Size(s string) (int64, error) {
	text := strings.TrimSpace(s)
	unit := int64(1)
	for _, u := range SizeUnits {
		if n := len(text) - len(u.Name); n > 0 && strings.EqualFold(text[n:], u.Name) {
			unit, text = u.Size, strings.TrimSpace(text[:n])
			break
		}
	}
	if value, err := strconv.ParseInt(text, 10, 64); err == nil {
		if value < 0 || value > math.MaxInt64/unit {
			return 0, fmt.Errorf("size %q is negative or too large", s)
		}
		return value * unit, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "xXpPeEnN_") {
		return 0, fmt.Errorf("size %q is not a number with a unit such as 4096, 64KiB, 1.5GB", s)
	}
	if f *= float64(unit); f < 0 || f >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is negative or too large", s)
	}
	return int64(f), nil
}
