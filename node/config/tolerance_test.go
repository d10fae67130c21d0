package config

import (
	"strings"
	"testing"
)

// A tolerance is a number of fragments or a share of them, and nothing else.
func TestTolerance(t *testing.T) {
	for text, c := range map[string]struct {
		missing, of uint64
		tolerated   bool
	}{
		"":        {1, 1000, false},
		"0":       {1, 1000, false},
		"0%":      {1, 1000, false},
		"10":      {10, 11, true},
		" 9 ":     {10, 1000, false},
		"0.1%":    {1, 1000, true},
		"0.1 %":   {2, 1000, false},
		"100%":    {1000, 1000, true},
		"1e-300%": {1, 1 << 63, false},
	} {
		tolerance, err := ParseTolerance(text)
		if err != nil || tolerance.Tolerates(c.missing, c.of) != c.tolerated || !tolerance.Tolerates(0, 0) {
			t.Errorf("%q: %+v, %v: %d of %d", text, tolerance, err, c.missing, c.of)
		}
	}
	for _, text := range []string{"x", "-1", "0x10", "1_0", "1.5", "%", "101%", "0x1p-2%", "+1%", "-0.1%", "nan%", "inf%",
		"18446744073709551616"} {
		if got, err := ParseTolerance(text); err == nil || !strings.Contains(err.Error(), "0.1%") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// In a file it may stand as a number.
func TestToleranceInAFile(t *testing.T) {
	for text, want := range map[string]string{"10": "10", "0.1%": "0.1%", `"10"`: "10"} {
		c, err := readText("x.yaml", []byte("tolerate-missing: "+text+"\n"))
		if err != nil || c.TolerateMissing != want {
			t.Errorf("%s: %q, %v", text, c.TolerateMissing, err)
		}
	}
}
