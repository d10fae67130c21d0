package recording

import "testing"

func TestFormatOfAFileToWrite(t *testing.T) {
	for _, c := range []struct {
		path, ask string
		want      Format
		refused   bool
	}{
		{"a/x.mdf", "auto", FormatMDF, false},
		{"x.mep", "auto", FormatMEP, false},
		{"x.mfp", "auto", FormatMFP, false},
		{"x", "auto", FormatMDF, false},
		{".x", "auto", FormatMDF, false},
		{"a.b/x", "auto", FormatMDF, false},
		{"x.csv", "auto", 0, true},
		{"x.raw", "mep", FormatMEP, false},
		{"x.mdf", "mep", 0, true},
	} {
		got, err := ChooseFormat(c.path, c.ask)
		if (err != nil) != c.refused || got != c.want {
			t.Errorf("%s as %s: %v, %v", c.path, c.ask, got, err)
		}
	}
}
