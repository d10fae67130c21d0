package readoutunit

import (
	"fmt"
	"slices"
	"testing"
)

// TestShift holds the law of the linear shift (seed 002, L4): in no phase has a place two senders, and in a cycle every readout
// unit comes to every place once. Where there are more units than places the rest is silent, and keeps phase.
func TestShift(t *testing.T) {
	for rus := 1; rus <= 9; rus++ {
		for bus := 1; bus <= 9; bus++ {
			t.Run(fmt.Sprintf("%dx%d", rus, bus), func(t *testing.T) { checkShift(t, rus, bus) })
		}
	}
}

func checkShift(t *testing.T, rus, bus int) {
	phases := Phases(rus, bus)
	visits := make([][]int, rus) // by readout unit: the places it came to
	for p := range phases {
		senders := map[int]int{}
		for ru := range rus {
			place := PlaceOf(ru, p, phases)
			if place >= bus {
				continue
			}
			if other, ok := senders[place]; ok {
				t.Errorf("in phase %d, readout units %d and %d both send to place %d", p, other, ru, place)
			}
			senders[place] = ru
			visits[ru] = append(visits[ru], place)
		}
		if want := min(rus, bus); rus == bus && len(senders) != want {
			t.Errorf("in phase %d %d of %d places have a sender", p, len(senders), want)
		}
	}
	for ru, v := range visits {
		slices.Sort(v)
		for place := range bus {
			if len(v) != bus || v[place] != place {
				t.Fatalf("readout unit %d comes to the places %v, not to each of %d once", ru, v, bus)
			}
		}
	}
}

func TestShiftTable(t *testing.T) {
	const dummy = -1
	for _, tc := range []struct {
		rus, bus int
		places   [][]int // by phase, by readout unit
	}{
		{1, 1, [][]int{{0}}},
		{3, 3, [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}},
		{2, 3, [][]int{{0, 1}, {1, 2}, {2, 0}}},
		{3, 2, [][]int{{0, 1, dummy}, {1, dummy, 0}, {dummy, 0, 1}}},
		{1, 3, [][]int{{0}, {1}, {2}}},
		{3, 1, [][]int{{0, dummy, dummy}, {dummy, dummy, 0}, {dummy, 0, dummy}}},
	} {
		phases := Phases(tc.rus, tc.bus)
		if phases != len(tc.places) {
			t.Errorf("%d RUs and %d BUs take %d phases, not %d", tc.rus, tc.bus, phases, len(tc.places))
			continue
		}
		for p, want := range tc.places {
			for ru, place := range want {
				got := PlaceOf(ru, p, phases)
				if got >= tc.bus {
					got = dummy
				}
				if got != place {
					t.Errorf("%d RUs, %d BUs, phase %d: readout unit %d is at place %d, not %d", tc.rus, tc.bus, p, ru, got, place)
				}
			}
		}
	}
}
