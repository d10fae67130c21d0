package readoutunit

import (
	"testing"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

// TestUndecidedIsSetAside holds that a transfer which its stopped builder unit has not asked for keeps no places of
// those that come after it, and is there when it is asked for, or over when its MEP is.
func TestUndecidedIsSetAside(t *testing.T) {
	u := NewPulled(2, 2)
	take := func(c uint64, tokens ...tagnet.Token) {
		t.Helper()
		if err := u.Cycle(batch(c, tokens), 0); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(bu int, mep uint64, slot uint32) {
		t.Helper()
		if err := u.Grant(bu, &placing.Grant{
			MEP:     mep,
			Slot:    slot,
			Attempt: 1,
			Window:  1,
			Gen:     uint32(mep) + 1,
			Length:  4,
		}); err != nil {
			t.Fatal(err)
		}
		turn, n := u.Turn()
		if turn != Send || u.At(n).MEP != mep || int(u.At(n).BU) != bu {
			t.Fatalf("%s %+v, where MEP %d was asked for", turn, u.At(n), mep)
		}
		u.Serve(n, 1, nil)
		if err := u.Complete([]uint64{n}); err != nil {
			t.Fatal(err)
		}
	}
	take(0, tok(0, 0), tok(1, 0))
	take(1, tok(2, 1), none)
	serve(1, 1, 0)
	most := 0
	for mep := uint64(3); mep < 10_000; mep++ {
		take(mep-1, none, tok(mep, uint32(mep%2)))
		serve(1, mep, uint32(mep%2))
		most = max(most, len(u.places))
	}
	if limit := 2 * (manyRounds + 1) * 2 * 2; most > limit {
		t.Errorf("%d places were kept at a time, more than %d", most, limit)
	}
	if u.Open() != 2 {
		t.Errorf("%d transfers are open", u.Open())
	}
	serve(0, 0, 0)
	u.Release(10_000)
	if u.Open() != 0 || u.Unasked() != 1 {
		t.Errorf("%d transfers are open, %d were never asked for", u.Open(), u.Unasked())
	}
}
