package plural

import "testing"

func TestOneIsNoRange(t *testing.T) {
	for want, got := range map[string]string{
		"5":                         RangeText(5, 5),
		"5 to 7":                    RangeText(5, 7),
		"0 to 18446744073709551615": RangeText(0, 1<<64-1),
		"source 5":                  NamedRange("source", 5, 5),
		"sources 5 to 7":            NamedRange("source", 5, 7),
		"MEP 8":                     CountInRange(1, "MEP", 8, 8),
		"2 MEPs from 8 to 11":       CountInRange(2, "MEP", 8, 11),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
