package core

import (
	"testing"
	"time"

	"ringlet/internal/standstill"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// stillBuilder is a view under Wait in which one builder unit may give no outcome.
type stillBuilder struct {
	t     *testing.T
	core  *Core
	now   time.Duration
	still int // builder unit that gives no outcome; below 0: none
	owned []Token
	first [3]uint64 // entries of feedback sent, by builder unit
}

// turn has the scheduler look, and every builder unit but the one that stands still builds what it has. It returns how
// many tokens the scheduler issued.
func (s *stillBuilder) turn() int {
	s.now += 5 * time.Millisecond
	n := 0
	for _, notice := range s.core.Ready(s.now.Nanoseconds()).Notices {
		for i := range notice.Len() {
			for bu := range notice.PlacesPerCycle {
				if tok, ok := notice.Token(i, bu); ok {
					s.owned = append(s.owned, tok)
					n++
				}
			}
		}
	}
	var kept []Token
	for _, tok := range s.owned {
		if int(tok.BU) == s.still {
			kept = append(kept, tok)
			continue
		}
		bu := int(tok.BU)
		s.core.Step(s.now.Nanoseconds(), Outcomes{Unit: bu, Stream: uint64(2 + bu), Batch: &tagnetv1.FeedbackBatch{
			First: s.first[bu], Meps: []uint64{tok.MEP}, Slots: []uint32{PackSlot(tok.Attempt, tok.Slot)},
			Events: []uint32{1}, Outcomes: []byte{byte(Built)}, HeldUs: []uint32{0},
		}})
		s.first[bu]++
	}
	s.owned = kept
	return n
}

// TestStillBuilderIsPassedOver has a builder unit give no outcome for a while: the cycles wait for it only
// as long as the standstill detector says, and again once it has worked off what it has.
func TestStillBuilderIsPassedOver(t *testing.T) {
	for _, loose := range []bool{false, true} {
		cfg := view(1, 3)
		cfg.Slots, cfg.Loose = 4, loose
		s := &stillBuilder{t: t, core: newTestCore(t, cfg), still: -1}
		attachAll(t, s.core)
		s.core.Step(1, Report{Unit: 0, Stream: 1, Update: Update{ReadBelow: 1 << 20, Events: 1 << 20}})
		for range 100 {
			s.turn()
		}
		passedOver := func() uint64 { return s.core.alloc.bus[1].counters.LeftBehind }
		if passedOver() != 0 {
			t.Fatal("a builder unit was passed over in a run without a fault")
		}
		s.still = 1
		for s.turn() > 0 {
		}
		begun := s.now
		for s.turn() == 0 {
			if s.now-begun > 2*standstill.Least {
				t.Fatalf("loose %v: the others still wait after %v: %+v", loose, s.now-begun, s.core.alloc.waitReason)
			}
		}
		if waited := s.now - begun; waited < standstill.Least || passedOver() != 1 {
			t.Errorf("loose %v: passed over %d times, after %v", loose, passedOver(), waited)
		}
		for range 200 {
			if s.turn() == 0 {
				t.Fatal("the others wait once more")
			}
		}
		if len(s.owned) != cfg.Slots {
			t.Errorf("the unit that stands still has %d MEPs, not %d", len(s.owned), cfg.Slots)
		}
		s.still = -1
		for range 100 {
			s.turn()
		}
		if s.core.alloc.leftBehindBUs != 0 || passedOver() != 1 {
			t.Errorf("loose %v: %d units left behind, passed over %d times", loose, s.core.alloc.leftBehindBUs, passedOver())
		}
	}
}
