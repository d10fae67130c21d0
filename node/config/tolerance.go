package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Tolerance is how many fragments of each live source a GOOD run may lack.
type Tolerance struct {
	MaxMissing uint64  // number of fragments
	MaxPercent float64 // or per cent of the source's fragments
	Text       string
}

// ParseTolerance reads a number of fragments, 10, or a share of a source's fragments, 0.1%. An empty text is 0.
func ParseTolerance(text string) (t Tolerance, err error) {
	t.Text = strings.TrimSpace(text)
	share, percent := strings.CutSuffix(t.Text, "%")
	switch {
	case t.Text == "":
		return t, nil
	case percent:
		t.MaxPercent, err = strconv.ParseFloat(strings.TrimSpace(share), 64)
	default:
		t.MaxMissing, err = strconv.ParseUint(t.Text, 10, 64)
	}
	if err != nil || strings.ContainsAny(t.Text, "xXpP_+") || math.IsNaN(t.MaxPercent) || t.MaxPercent < 0 ||
		t.MaxPercent > 100 {
		return Tolerance{}, fmt.Errorf("%q is neither a number of fragments, such as 10, nor a share from 0%% to 100%%, "+
			"such as 0.1%%", text)
	}
	return t, nil
}

// Tolerates says whether a source may lack missing fragments of the number that it should have, of.
func (t Tolerance) Tolerates(missing, of uint64) bool {
	return missing <= t.MaxMissing || float64(missing)*100 <= t.MaxPercent*float64(of)
}
