package placing

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// divisions are what a run may have.
func divisions(most int) *rapid.Generator[Division] {
	return rapid.Map(rapid.SliceOfN(rapid.IntRange(1, 9), 1, most),
		func(counts []int) Division { return NewDivision(counts...) })
}

// TestDivision holds that every source is at one unit, that shares follow one another, and that all questions have
// answers that agree.
func TestDivision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := divisions(40).Draw(t, "division")
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
		source := 0
		for unit := range d.Units() {
			if d.FirstSource(unit) != source {
				t.Fatalf("unit %d begins at source %d, those before it end at %d", unit, d.FirstSource(unit), source)
			}
			for range d.SourceCount(unit) {
				if d.UnitOf(source) != unit {
					t.Fatalf("source %d is at unit %d, not at %d", source, d.UnitOf(source), unit)
				}
				source++
			}
		}
		counts := d.Counts()
		least, most := d.SourceRange()
		if source != d.Sources() || least != slices.Min(counts) || most != slices.Max(counts) {
			t.Fatalf("%d sources, %d to %d at a unit: %v", d.Sources(), least, most, counts)
		}
	})
}

// TestSpread holds that what is spread lies as evenly as possible, the larger shares first.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.IntRange(1, 50).Draw(t, "units")
		sources := rapid.IntRange(units, 500).Draw(t, "sources")
		d := SpreadDivision(sources, units)
		if err := d.Check(); err != nil || d.Units() != units || d.Sources() != sources {
			t.Fatalf("%v: %v", d.Counts(), err)
		}
		for unit := range units {
			want := sources / units
			if unit < sources%units {
				want++
			}
			if d.SourceCount(unit) != want {
				t.Fatalf("unit %d has %d of %v", unit, d.SourceCount(unit), d.Counts())
			}
		}
		if each := sources / units; sources%units == 0 && !slices.Equal(EvenDivision(units, each).Counts(), d.Counts()) {
			t.Fatalf("%v is not even", d.Counts())
		}
	})
}

func TestDivisionRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		d    Division
		says string
	}{
		"nothing":        {Division{}, "no readout unit"},
		"nobody":         {NewDivision(), "no readout unit"},
		"no units":       {SpreadDivision(3, 0), "no readout unit"},
		"one has none":   {NewDivision(5, 0, 3), "readout unit 1 of 3 has no source"},
		"fewer sources":  {SpreadDivision(2, 3), "readout unit 2 of 3 has no source"},
		"none each":      {EvenDivision(4, 0), "readout unit 0 of 4 has no source"},
		"negative":       {NewDivision(5, -1), "readout unit 1 of 2 has no source"},
		"too many":       {NewDivision(60000, 6000), "66000 sources of 2 readout units are more than the 65536"},
		"too many units": {EvenDivision(65537, 1), "more than the 65536"},
	} {
		if err := tc.d.Check(); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d := (Division{}); d.Units() != 0 || d.Sources() != 0 || len(d.Counts()) != 0 {
		t.Errorf("the zero division is of %d units", d.Units())
	}
}
