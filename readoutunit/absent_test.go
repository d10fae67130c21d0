package readoutunit

import (
	"errors"
	"slices"
	"testing"

	"ringlet/barrier"
	"ringlet/tagnet/core"
)

// TestBound holds that rounds of many cycles end where readout units go or come back, and that one of a single cycle
// begins there: nobody has agreed on more.
func TestBound(t *testing.T) {
	s := newShift(0, SeatsInOrder(2, 2), 2, 4, false)
	s.setMaxCycles(4)
	b := core.Batch{
		PlacesPerCycle: 2,
		MEPs:           slices.Repeat([]uint64{core.NoMEP}, 40),
		Slots:          make([]uint32, 40),
	}
	var begun []uint64
	for i := range 20 {
		if i == 6 || i == 13 {
			s.boundRound(uint64(i))
		}
		if err := s.AddCycle(&b, i); err != nil {
			t.Fatal(err)
		}
	}
	for s.hasRound() {
		if _, phases := s.progress(); s.rounds.phase == 0 && phases == 2 {
			begun = append(begun, s.RoundStart())
		}
		s.AdvancePhase(max(1, s.cyclesAhead()))
	}
	if want := []uint64{0, 1, 5, 6, 7, 11, 13, 14, 18}; !slices.Equal(begun, want) {
		t.Errorf("rounds begin with the cycles %v, want %v", begun, want)
	}
}

// A unit waits at the barrier again, to enter it or to leave it, where the run may do without those who do not come. It
// does so not for ever, and not for another reason.
func TestWaitsPatiently(t *testing.T) {
	late, other := error(&barrier.TimeoutError{}), errors.New("another reason")
	for _, tc := range []struct {
		name      string
		tolerates bool
		gives     []error // then nil
		want      error
		waits     int
	}{
		{"all come", true, nil, nil, 1},
		{"one comes late", true, []error{late, late}, nil, 3},
		{"one does not come", true, slices.Repeat([]error{late}, 2*maxBarrierTimeouts), late, maxBarrierTimeouts},
		{"another reason", true, []error{late, other}, other, 2},
		{"nobody may be missing", false, []error{late}, late, 1},
	} {
		u := &Unit{cfg: Config{ToleratesReadoutLoss: tc.tolerates}}
		waits := 0
		err := u.retryBarrier(func() (err error) {
			if waits < len(tc.gives) {
				err = tc.gives[waits]
			}
			waits++
			return err
		})
		if !errors.Is(err, tc.want) || waits != tc.waits {
			t.Errorf("%s: %v after %d waits, want %v after %d", tc.name, err, waits, tc.want, tc.waits)
		}
	}
}
