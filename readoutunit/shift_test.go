package readoutunit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestShift holds the law of the linear shift (LHCb-EB §II.A): in no phase has a place two senders, and in a cycle
// every readout unit comes to every place once. Where there are more units than places the rest is silent, and keeps
// phase.
func TestShift(t *testing.T) {
	for rus := 1; rus <= 9; rus++ {
		for bus := 1; bus <= 9; bus++ {
			t.Run(fmt.Sprintf("%dx%d", rus, bus), func(t *testing.T) { checkShift(t, rus, bus) })
		}
	}
}

func checkShift(t *testing.T, rus, bus int) {
	phases := PhaseCount(rus, bus)
	visits := make([][]int, rus) // by readout unit: the places it came to
	for p := range phases {
		senders := map[int]int{}
		for ru := range rus {
			place := targetSeat(ru, p, phases)
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

// TestSeats holds the same law where units sit anywhere, some alone and some seats empty.
func TestSeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rus, bus := rapid.IntRange(1, 6).Draw(t, "rus"), rapid.IntRange(1, 6).Draw(t, "bus")
		seats := SeatsInOrder(rus, bus)
		for range rapid.IntRange(0, 3).Draw(t, "dummies") {
			seats.RUs, seats.BUs = append(seats.RUs, Dummy), append(seats.BUs, Dummy)
		}
		seats.RUs = rapid.Permutation(seats.RUs).Draw(t, "readout units")
		seats.BUs = rapid.Permutation(seats.BUs).Draw(t, "builder units")
		var visits [][]int
		for ru := range rus {
			visits = append(visits, newShift(ru, seats, bus, 1, true).VisitOrder())
		}
		for p := range seats.BUs {
			taken := map[int]bool{Dummy: false}
			for ru := range rus {
				if bu := visits[ru][p]; bu != Dummy && taken[bu] {
					t.Fatalf("in phase %d builder unit %d has two senders: %v", p, bu, visits)
				} else if bu != Dummy {
					taken[bu] = true
				}
			}
		}
		for ru, v := range visits {
			for bu := range bus {
				if i := slices.Index(v, bu); i < 0 || slices.Contains(v[i+1:], bu) {
					t.Fatalf("readout unit %d comes to %v, not to each of %d once", ru, v, bus)
				}
			}
		}
	})
}

// TestUntilPhase holds that a phase's turn comes every round, in step for all.
func TestUntilPhase(t *testing.T) {
	const window = 10 * time.Millisecond
	for _, tc := range []struct {
		now           time.Duration
		phase, phases int
		want          time.Duration
	}{
		{0, 0, 3, 0},
		{0, 1, 3, window},
		{time.Millisecond, 0, 3, 29 * time.Millisecond},
		{10 * time.Millisecond, 1, 3, 0},
		{14 * time.Millisecond, 2, 3, 6 * time.Millisecond},
		{25 * time.Millisecond, 0, 3, 5 * time.Millisecond},
		{300*window + time.Microsecond, 0, 1, window - time.Microsecond},
	} {
		if got := untilPhase(tc.now, window, tc.phase, tc.phases); got != tc.want {
			t.Errorf("at %v phase %d of %d is %v away, not %v", tc.now, tc.phase, tc.phases, got, tc.want)
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
		phases := PhaseCount(tc.rus, tc.bus)
		if phases != len(tc.places) {
			t.Errorf("%d RUs and %d BUs take %d phases, not %d", tc.rus, tc.bus, phases, len(tc.places))
			continue
		}
		for p, want := range tc.places {
			for ru, place := range want {
				got := targetSeat(ru, p, phases)
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
