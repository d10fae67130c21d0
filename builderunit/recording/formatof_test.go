package recording

import "testing"

func TestFormatOfAFileToWrite(t *testing.T) {
	for _, c := range []struct {
		path, ask string
		want      Format
		refused   bool
	}{
		{"a/x.mdf", "auto", MDF, false},
		{"x.mep", "auto", MEP, false},
		{"x.mfp", "auto", MFP, false},
		{"x", "auto", MDF, false},
		{".x", "auto", MDF, false},
		{"a.b/x", "auto", MDF, false},
		{"x.csv", "auto", 0, true},
		{"x.raw", "mep", MEP, false},
		{"x.mdf", "mep", 0, true},
	} {
		got, err := ChooseFormat(c.path, c.ask)
		if (err != nil) != c.refused || got != c.want {
			t.Errorf("%s as %s: %v, %v", c.path, c.ask, got, err)
		}
	}
}
