package placing

import (
	"errors"
	"fmt"
	"slices"
)

// maxSources is the number of sources that a 16-bit source id tells apart.
const maxSources = 1 << 16

// A Division says which sources each readout unit has: unit 0 the first ones, unit 1 the next ones, and so on. It is
// made once from the configuration, and is the only place that computes where a unit's sources begin. It is immutable.
// The zero Division has no units: the configuration is not known yet.
type Division struct {
	first []int // by readout unit: its first source; last, the number of all sources
}

// EvenDivision gives each of units readout units the same number of sources, each.
func EvenDivision(units, each int) Division {
	d := Division{make([]int, max(0, units)+1)}
	for i := range d.first {
		d.first[i] = i * each
	}
	return d
}

// SpreadDivision spreads sources over units readout units as evenly as possible: 8 sources over 3 units are 3, 3 and 2.
func SpreadDivision(sources, units int) Division {
	if units < 1 {
		return Division{}
	}
	d := Division{make([]int, units+1)}
	each, more := sources/units, sources%units
	for i := range d.first {
		d.first[i] = i*each + min(i, more)
	}
	return d
}

// NewDivision gives readout unit i counts[i] sources.
func NewDivision(counts ...int) Division {
	d := Division{make([]int, 1, len(counts)+1)}
	for _, n := range counts {
		d.first = append(d.first, d.Sources()+n)
	}
	return d
}

// Check returns why no run can have this division; nil: it is valid. The other methods are meant for a valid one.
func (d Division) Check() error {
	if d.Units() < 1 {
		return errors.New("there is no readout unit")
	}
	for unit := range d.Units() {
		if d.SourceCount(unit) < 1 {
			return fmt.Errorf("readout unit %d of %d has no source: give each at least one, or take fewer readout units",
				unit, d.Units())
		}
	}
	if d.Sources() > maxSources {
		return fmt.Errorf("%d sources of %d readout units are more than the %d sources that a 16-bit source id can tell "+
			"apart", d.Sources(), d.Units(), maxSources)
	}
	return nil
}

// Units is the number of readout units.
func (d Division) Units() int { return max(0, len(d.first)-1) }

// Sources is the number of sources of all units.
func (d Division) Sources() int {
	if len(d.first) == 0 {
		return 0
	}
	return d.first[len(d.first)-1]
}

// FirstSource is the id of a unit's first source.
func (d Division) FirstSource(unit int) int { return d.first[unit] }

// SourceCount is the number of a unit's sources.
func (d Division) SourceCount(unit int) int { return d.first[unit+1] - d.first[unit] }

// UnitOf is the readout unit that has a source.
func (d Division) UnitOf(source int) int {
	at, found := slices.BinarySearch(d.first, source)
	if found {
		return at
	}
	return at - 1
}

// Counts are the numbers of sources of all units, in order.
func (d Division) Counts() []int {
	counts := make([]int, d.Units())
	for unit := range counts {
		counts[unit] = d.SourceCount(unit)
	}
	return counts
}

// SourceRange is the smallest and the largest number of sources of a unit; they are equal if all units have as many.
func (d Division) SourceRange() (least, most int) {
	for unit := range d.Units() {
		n := d.SourceCount(unit)
		if unit == 0 {
			least = n
		}
		least, most = min(least, n), max(most, n)
	}
	return least, most
}
