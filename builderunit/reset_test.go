package builderunit

import (
	"context"
	"errors"
	"testing"
	"time"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet/core"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestReset holds that what is in part in the slots is given up, that late writes to it are refused, and that every
// slot takes another MEP.
func TestReset(t *testing.T) {
	r := newRig(t, nil)
	pieces := func(mep uint64) (all []*piece) {
		for ru := range r.ranks {
			all = append(all, r.piece(ru, mep*rigPacking))
		}
		return all
	}
	sized := pieces(1)
	for _, p := range sized {
		r.announce(p, 0, 1)
	}
	late := r.net.grant(r.ranks[1], 1)
	if v := r.write(sized[0], r.net.grant(r.ranks[0], 1), 0, len(sized[0].data)); v != 0 {
		t.Fatal(v)
	}
	r.announce(pieces(2)[0], 1, 2)
	if err := r.b.Reset(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if v := r.write(sized[1], late, 0, len(sized[1].data)); v == 0 {
		t.Error("a late write was let in")
	}
	if st := r.b.Stats(); st.WithdrawnMEPs != 2 || st.IncompleteMEPs != 0 || st.Slots.Offered != 2 ||
		r.table.Stats().Live != 0 {
		t.Errorf("%+v, %d windows", st, r.table.Stats().Live)
	}
	for slot, mep := range []uint64{7, 8} {
		r.build(pieces(mep), slot, mep)
		if res := r.result(); res.MEP != mep || res.Outcome != core.Built {
			t.Errorf("%+v", res)
		}
	}
	r.close()
	if err := r.b.Reset(t.Context(), 0); !errors.Is(err, errClosed) {
		t.Errorf("a closed unit was reset: %v", err)
	}
}

// TestResetWaitsUntilQuiesced holds that an announcement of the time before the exclusion, which a link has held up,
// does not get into a slot that is free for the next MEP: Reset waits until every readout unit has said that no more of
// them comes.
func TestResetWaitsUntilQuiesced(t *testing.T) {
	r := newRig(t, nil)
	quiesce := func(ru int, exclusions uint32) {
		t.Helper()
		if err := r.b.RecordQuiesced(r.ranks[ru], placing.AppendQuiesced(nil, exclusions)); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan error, 1)
	go func() { over <- r.b.Reset(t.Context(), 2) }()
	quiesce(0, 1)
	for ru := 1; ru < len(r.ranks); ru++ {
		quiesce(ru, 2)
	}
	r.announce(r.piece(0, rigPacking), 0, 1) // late
	select {
	case err := <-over:
		t.Fatalf("reset before all have quiesced: %v", err)
	case <-time.After(4 * resetPollInterval):
	}
	quiesce(0, 2)
	if err := patiently.Receive(t, over); err != nil {
		t.Fatal(err)
	}
	var pieces []*piece
	for ru := range r.ranks {
		pieces = append(pieces, r.piece(ru, 7*rigPacking))
	}
	r.build(pieces, 0, 7)
	if res := r.result(); res.MEP != 7 || res.Outcome != core.Built {
		t.Errorf("%+v", res)
	}
	if st := r.b.Stats(); st.WithdrawnMEPs != 1 || st.RefusedAnnouncements != 0 || st.RejectedMessages != 0 {
		t.Errorf("%+v", st)
	}
	for what, err := range map[string]error{
		"a stranger":   r.b.RecordQuiesced(99, placing.AppendQuiesced(nil, 1)),
		"no exclusion": r.b.RecordQuiesced(r.ranks[0], placing.AppendQuiesced(nil, 0)),
	} {
		if err == nil {
			t.Errorf("%s has quiesced", what)
		}
	}
}

// TestResetWithoutReadoutUnit holds that Reset does not wait for a readout unit that is gone, which cannot say any more
// that it has quiesced.
func TestResetWithoutReadoutUnit(t *testing.T) {
	r := newRig(t, tolerant)
	for _, rank := range r.ranks[1:] {
		must.OK(t, r.b.RecordQuiesced(rank, placing.AppendQuiesced(nil, 2)))
	}
	over := make(chan error, 1)
	go func() { over <- r.b.Reset(t.Context(), 2) }()
	select {
	case err := <-over:
		t.Fatalf("reset before all have quiesced: %v", err)
	case <-time.After(4 * resetPollInterval):
	}
	for _, ru := range []int{1, 2} {
		r.announce(r.piece(ru, 0), 0, 0) // a MEP that lacks nothing but its part is not built without it
	}
	must.OK(t, r.b.MarkRUGone(0, false))
	must.OK(t, patiently.Receive(t, over))
	if st := r.b.Stats(); st.WithdrawnMEPs != 1 || st.BuiltMEPs+st.IncompleteMEPs != 0 {
		t.Errorf("%+v", st)
	}
}

// TestResetWaits holds that a MEP which is whole gets its outcome first.
func TestResetWaits(t *testing.T) {
	reported, hold := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(_ *rig, c *Config) {
		c.OnResults = func([]MEPResult) error {
			close(reported)
			patiently.Hold(hold)
			return nil
		}
	})
	var pieces []*piece
	for ru := range r.ranks {
		pieces = append(pieces, r.piece(ru, 0))
	}
	r.build(pieces, 0, 0)
	patiently.Receive(t, reported)
	over := make(chan error)
	go func() { over <- r.b.Reset(t.Context(), 0) }()
	select {
	case err := <-over:
		t.Errorf("reset while an outcome was being reported: %v", err)
	default:
	}
	close(hold)
	if err := patiently.Receive(t, over); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.b.Reset(gone, 0); err != nil {
		t.Errorf("nothing is to be waited for, but %v", err)
	}
}

// TestPreGrantedReset holds the same where parts have pre-granted windows.
func TestPreGrantedReset(t *testing.T) {
	r := newPreGrantedRig(t, 2, nil)
	r.b.Placed(r.ranks[0], r.place(r.part(0, 3), 0, 3, 1))
	if err := r.b.Reset(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if st := r.b.Stats(); st.WithdrawnMEPs != 1 || st.RejectedPlacements != 0 || st.Slots.Offered != 2 {
		t.Errorf("%+v", st)
	}
	r.buildPreGranted(0, 4)
	if res := r.result(); res.MEP != 4 || res.Outcome != core.Built {
		t.Errorf("%+v", res)
	}
	if is := r.slots.State(0); is != shmem.SlotOffered {
		t.Errorf("the slot is %v", is)
	}
}
