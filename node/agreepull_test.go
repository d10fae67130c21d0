package node_test

import (
	"fmt"
	"testing"

	"ringlet/barrier"
	"ringlet/builderunit"
)

// TestUnitsThatPullAgree is TestUnitsAgree where the builder units ask for what they want, with and without a region of
// interest.
func TestUnitsThatPullAgree(t *testing.T) {
	for _, roi := range [][]int{nil, {0}} {
		for _, credit := range []int{1, 3} {
			for _, rus := range []int{2, 5} {
				for _, bus := range []int{1, 3} {
					t.Run(fmt.Sprintf("interest %v/credit %d/%d to %d", roi, credit, rus, bus), func(t *testing.T) {
						s := newSystem(t, barred{kind: barrier.None},
							&builderunit.Pull{RequestCredit: credit, SlotsPerRelease: slots, RegionUnits: roi}, false, 4,
							rus, bus)
						s.run()
						s.checkPulled()
					})
				}
			}
		}
	}
}

// decide accepts every other MEP of which a readout unit of the region of interest has all its MFPs.
func (s *system) decide(mep uint64, mfps [][]byte) bool {
	wanted := 0
	for _, ru := range s.pull.RegionUnits {
		wanted += s.division.SourceCount(ru)
	}
	return mep%2 == 0 && len(mfps) == wanted
}

// checkPulled closes the accounts.
func (s *system) checkPulled() {
	t := s.t
	meps := uint64((events + s.packing - 1) / s.packing)
	built, rejected := meps, uint64(0)
	if len(s.pull.RegionUnits) > 0 {
		built, rejected = (meps+1)/2, meps/2
	}
	var writes, unasked uint64
	for i, u := range s.units {
		st := u.Stats()
		if st.MFPsRead != meps*uint64(s.division.SourceCount(i)) || st.TokensReceived != meps ||
			st.PartsWritten+st.UnrequestedTokens != meps || st.OpenTransfers != 0 || st.RefusedGrants != 0 {
			t.Errorf("readout unit %d: %+v", i, st)
		}
		writes, unasked = writes+st.PartsWritten, unasked+st.UnrequestedTokens
	}
	var sum builderunit.Stats
	for j, b := range s.builders {
		st := b.Stats()
		if st.IncompleteMEPs+st.Stats.RefusedAnnouncements+st.RejectedPlacements+st.RejectedMessages != 0 ||
			st.Slots.Free != slots || st.OutstandingRequestsHigh > uint64(s.pull.RequestCredit) {
			t.Errorf("builder unit %d: %+v", j, st)
		}
		out, err := s.sinks[j].Finish()
		if err != nil || out.MEPs != st.BuiltMEPs {
			t.Errorf("builder unit %d: its sink has %d MEPs (%v), not %d", j, out.MEPs, err, st.BuiltMEPs)
		}
		if x := s.tables[j].Stats(); x.Live != 0 || x.Granted != x.Revoked || x.Granted != st.WindowsGranted {
			t.Errorf("builder unit %d: credits %+v, of %d", j, x, st.WindowsGranted)
		}
		sum.BuiltMEPs, sum.PlacedMFPs, sum.RejectedMEPs = sum.BuiltMEPs+st.BuiltMEPs, sum.PlacedMFPs+st.PlacedMFPs,
			sum.RejectedMEPs+st.RejectedMEPs
		sum.RejectedMFPs, sum.UnrequestedMFPs = sum.RejectedMFPs+st.RejectedMFPs, sum.UnrequestedMFPs+st.UnrequestedMFPs
		sum.WindowsGranted, sum.UnrequestedParts = sum.WindowsGranted+st.WindowsGranted,
			sum.UnrequestedParts+st.UnrequestedParts
	}
	if sum.BuiltMEPs != built || sum.RejectedMEPs != rejected || sum.PlacedMFPs != built*uint64(s.division.Sources()) ||
		sum.RejectedMFPs+sum.UnrequestedMFPs != rejected*uint64(s.division.Sources()) || sum.WindowsGranted != writes ||
		sum.UnrequestedParts != unasked {
		t.Errorf("of %d MEPs: %+v; %d parts written and %d not asked for", meps, sum, writes, unasked)
	}
	if c := s.core.Registers().Counters; c.Built != built || c.Rejected != rejected || c.Issued != meps ||
		s.core.Released() != meps {
		t.Errorf("scheduler: %+v", c)
	}
}
