package plural

import "testing"

func TestOneIsNoRange(t *testing.T) {
	for want, got := range map[string]string{
		"5":                         FromTo(5, 5),
		"5 to 7":                    FromTo(5, 7),
		"0 to 18446744073709551615": FromTo(0, 1<<64-1),
		"source 5":                  Span("source", 5, 5),
		"sources 5 to 7":            Span("source", 5, 7),
		"MEP 8":                     Among(1, "MEP", 8, 8),
		"2 MEPs from 8 to 11":       Among(2, "MEP", 8, 11),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
