package readoutunit

import (
	"testing"

	"ringlet/event/placing"
	"ringlet/tagnet/core"
)

// TestUndecidedIsSetAside holds that a transfer which its stopped builder unit has not asked for keeps no places of
// those that come after it, and is there when it is asked for, or over when its MEP is.
func TestUndecidedIsSetAside(t *testing.T) {
	u := newPulled(2, 2)
	take := func(c uint64, tokens ...core.Token) {
		t.Helper()
		if err := u.AddCycle(batch(c, tokens), 0); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(bu int, mep uint64, slot uint32) {
		t.Helper()
		if err := u.ApplyGrant(bu, &placing.Grant{
			MEP:     mep,
			Slot:    slot,
			Attempt: 1,
			Window:  1,
			Gen:     uint32(mep) + 1,
			Length:  4,
		}); err != nil {
			t.Fatal(err)
		}
		action, n := u.Next()
		if action != Send || u.TransferAt(n).MEP != mep || int(u.TransferAt(n).BU) != bu {
			t.Fatalf("%s %+v, where MEP %d was asked for", action, u.TransferAt(n), mep)
		}
		u.Serve(n, 1, nil)
		if err := u.Complete([]uint64{n}); err != nil {
			t.Fatal(err)
		}
	}
	take(0, newToken(0, 0), newToken(1, 0))
	take(1, newToken(2, 1), none)
	serve(1, 1, 0)
	most := 0
	for mep := uint64(3); mep < 10_000; mep++ {
		take(mep-1, none, newToken(mep, uint32(mep%2)))
		serve(1, mep, uint32(mep%2))
		most = max(most, len(u.places))
	}
	if limit := 2 * (maxPlacesPerSlot + 1) * 2 * 2; most > limit {
		t.Errorf("%d places were kept at a time, more than %d", most, limit)
	}
	if u.OpenTransfers() != 2 {
		t.Errorf("%d transfers are open", u.OpenTransfers())
	}
	serve(0, 0, 0)
	u.Release(10_000)
	if u.OpenTransfers() != 0 || u.UnrequestedTransfers() != 1 {
		t.Errorf("%d transfers are open, %d were never asked for", u.OpenTransfers(), u.UnrequestedTransfers())
	}
}
