package builderunit

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/builderunit/sink"
	"ringlet/tagnet/core"
)

// stuck is a sink that takes nothing until it is let go.
type stuck struct {
	sink.Discard
	free chan struct{}
}

func (s *stuck) Write(ctx context.Context, m sink.Meta, mep []byte) error {
	select {
	case <-s.free:
		return s.Discard.Write(ctx, m, mep)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overloaded is a builder unit with four slots whose sink is stuck.
type overloaded struct {
	*rig
	sink  *stuck
	build func(slot int, mep uint64)
}

// eachPlacing runs a test with sizes announced and with pre-granted windows.
func eachPlacing(t *testing.T, backlog int, test func(*testing.T, *overloaded)) {
	t.Run("announce", func(t *testing.T) {
		o := &overloaded{sink: &stuck{free: make(chan struct{})}}
		o.rig = newRigWithSlots(t, 4, func(_ *rig, c *Config) { c.Sink, c.MaxWaitingMEPs = o.sink, backlog })
		o.build = func(slot int, mep uint64) {
			var pieces []*piece
			for ru := range o.ranks {
				pieces = append(pieces, o.piece(ru, mep*rigPacking))
			}
			o.rig.build(pieces, slot, mep)
		}
		test(t, o)
	})
	t.Run("pre-granted", func(t *testing.T) {
		o := &overloaded{sink: &stuck{free: make(chan struct{})}}
		q := newPreGrantedRig(t, 4, func(_ *rig, c *Config) { c.Sink, c.MaxWaitingMEPs = o.sink, backlog })
		o.rig, o.build = q.rig, q.buildPreGranted
		test(t, o)
	})
}

// A sink that is stuck holds up as many MEPs as may wait for it; all that come then are let go, for as long as it
// takes, and when it goes on, so does the unit.
func TestDiscards(t *testing.T) {
	const many = 300
	eachPlacing(t, 2, func(t *testing.T, o *overloaded) {
		o.build(0, 0)
		o.build(1, 1)
		for mep := uint64(2); mep < many; mep++ {
			slot := int(mep)%2 + 2
			o.build(slot, mep)
			want := MEPResult{
				Feedback: core.Feedback{
					Slot:    uint32(slot),
					MEP:     mep,
					Attempt: 1,
					Outcome: core.Discarded,
				},
			}
			got := o.result()
			if got.CompletedAt.IsZero() {
				t.Error("nobody knows when it was there")
			}
			if got.CompletedAt = want.CompletedAt; got != want {
				t.Fatalf("the unit reported %+v, not %+v", got, want)
			}
		}
		close(o.sink.free)
		for _, mep := range []uint64{0, 1, many} {
			if mep == many {
				o.build(2, mep)
			}
			if got := o.result(); got.MEP != mep || got.Outcome != core.Built {
				t.Errorf("the unit reported %+v of MEP %d", got, mep)
			}
		}
		s := o.b.Stats()
		if s.DiscardedMEPs != many-2 || s.BuiltMEPs != 3 || s.IncompleteMEPs+s.RejectedPlacements+s.RejectedMessages != 0 {
			t.Errorf("counted %+v", s)
		}
	})
}

// Without a backlog everything waits, and nothing is lost.
func TestHolds(t *testing.T) {
	eachPlacing(t, 0, func(t *testing.T, o *overloaded) {
		for mep := range 4 {
			o.build(mep, uint64(mep))
		}
		if s := o.b.Stats(); s.BuiltMEPs != 0 || s.DiscardedMEPs != 0 || len(o.results) != 0 {
			t.Fatalf("the sink is stuck, and the unit counts %+v", s)
		}
		close(o.sink.free)
		for mep := range uint64(4) {
			if got := o.result(); got.MEP != mep || got.Outcome != core.Built {
				t.Errorf("the unit reported %+v of MEP %d", got, mep)
			}
		}
	})
}

// A unit that is closed while MEPs wait to be discarded leaves nothing behind; newRig's clean-up holds that.
func TestClosedWhileDiscarding(t *testing.T) {
	eachPlacing(t, 1, func(_ *testing.T, o *overloaded) {
		for mep := range 4 {
			o.build(mep, uint64(mep))
		}
		o.close()
		if s := o.b.Stats(); s.DiscardedMEPs+s.IncompleteMEPs != 4 {
			o.t.Errorf("of four MEPs the unit counts %+v", s)
		}
	})
}

// Of several builder units one is suspended at a time, each in its turn, and none before the run has begun.
func TestSuspensionsTakeTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.Int64Range(2, 1e9).Draw(t, "every"))
		last := time.Duration(rapid.Int64Range(1, int64(every)-1).Draw(t, "for"))
		of := rapid.IntRange(1, 5).Draw(t, "of")
		over := time.Duration(0)
		for i := range 20 {
			s := Suspension{
				Interval: every,
				Duration: last,
				BUIndex:  i % of,
				BUCount:  of,
			}
			begin := s.beginOf(i / of)
			if begin <= over && i > 0 || begin <= 0 || begin+last != time.Duration(i+1)*every {
				t.Fatalf("suspension %d begins at %v, the one before was over at %v", i, begin, over)
			}
			over = begin + last
		}
	})
}

// A unit that is suspended now and then builds everything all the same.
func TestSuspendedUnitGoesOn(t *testing.T) {
	r := newRig(t, func(_ *rig, c *Config) {
		c.Sink, c.Suspension = &sink.Discard{}, Suspension{Interval: 2 * time.Millisecond, Duration: time.Millisecond,
			BUCount: 1}
	})
	for mep := uint64(0); r.b.Stats().Suspensions < 3 || mep < 10; mep++ {
		var pieces []*piece
		for ru := range r.ranks {
			pieces = append(pieces, r.piece(ru, mep*rigPacking))
		}
		r.build(pieces, int(mep%2), mep)
		if got := r.result(); got.MEP != mep || got.Outcome != core.Built {
			t.Fatalf("the unit reported %+v of MEP %d", got, mep)
		}
	}
	if s := r.b.Stats(); s.SuspendedTime < 3*time.Millisecond {
		t.Errorf("suspended for %v in %d times", s.SuspendedTime, s.Suspensions)
	}
}
