package builderunit

import (
	"context"
	"errors"
	"testing"

	"ringlet/shmem"
)

// TestReset holds that what is in part in the slots is given up, that late writes to it are refused, and that every slot takes another MEP.
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
	if err := r.b.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := r.write(sized[1], late, 0, len(sized[1].data)); v == 0 {
		t.Error("a late write was let in")
	}
	if st := r.b.Stats(); st.Withdrawn != 2 || st.Incomplete != 0 || st.Slots.Offered != 2 || r.table.Stats().Live != 0 {
		t.Errorf("%+v, %d windows", st, r.table.Stats().Live)
	}
	for slot, mep := range []uint64{7, 8} {
		r.build(pieces(mep), slot, mep)
		if res := r.result(); res.MEP != mep || res.Outcome != Built {
			t.Errorf("%+v", res)
		}
	}
	r.close()
	if err := r.b.Reset(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed unit was reset: %v", err)
	}
}

// TestResetWaits holds that a MEP which is whole gets its outcome first.
func TestResetWaits(t *testing.T) {
	told, hold := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(_ *rig, c *Config) {
		c.Feedback = func([]Result) error {
			close(told)
			<-hold
			return nil
		}
	})
	var pieces []*piece
	for ru := range r.ranks {
		pieces = append(pieces, r.piece(ru, 0))
	}
	r.build(pieces, 0, 0)
	<-told
	over := make(chan error)
	go func() { over <- r.b.Reset(t.Context()) }()
	select {
	case err := <-over:
		t.Errorf("reset while an outcome was being told: %v", err)
	default:
	}
	close(hold)
	if err := <-over; err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.b.Reset(gone); err != nil {
		t.Errorf("nothing is to be waited for, but %v", err)
	}
}

// TestQuotaReset holds the same where parts have standing windows.
func TestQuotaReset(t *testing.T) {
	r := newQuotaRig(t, 2, nil)
	r.b.Placed(r.ranks[0], r.put(r.part(0, 3), 0, 3, 1))
	if err := r.b.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := r.b.Stats(); st.Withdrawn != 1 || st.Strays != 0 || st.Slots.Offered != 2 {
		t.Errorf("%+v", st)
	}
	r.buildQuota(0, 4)
	if res := r.result(); res.MEP != 4 || res.Outcome != Built {
		t.Errorf("%+v", res)
	}
	if info, err := r.slots.Info(0); err != nil || info.State != shmem.SlotOffered {
		t.Errorf("%+v, %v", info, err)
	}
}
