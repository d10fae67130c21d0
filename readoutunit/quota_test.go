package readoutunit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event/placing"
	"ringlet/tagnet"
	"ringlet/transport/link"
)

// standing gives every window of a core for bus builder units.
func standing(t interface{ Fatal(...any) }, s *QuotaSchedule) {
	for bu := range s.refs {
		m := placing.Standing{}
		for slot := range s.slots {
			m.Refs = append(m.Refs, placing.Ref(standingRef(bu+1, uint32(slot))))
		}
		if err := s.Standing(bu, &m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStandingThatMakesNoSense(t *testing.T) {
	s := NewQuotaSchedule(0, 1, 1, 3)
	ref := func(w uint32) placing.Ref { return placing.Ref{Window: w, Gen: 1} }
	give := func(first uint32, refs ...placing.Ref) error {
		return s.Standing(0, &placing.Standing{First: first, Refs: refs})
	}
	if err := give(1, ref(1), ref(2)); err != nil || s.Granted() {
		t.Errorf("%v, all granted %v", err, s.Granted())
	}
	for says, err := range map[string]error{
		"in 2 slots from there on, but there are 3": give(2, ref(1), ref(2)),
		"4 slots from there on":                     give(1<<32-1, ref(1), ref(2), ref(3), ref(4)),
		"slot 1 of builder unit 0: another window":  give(0, ref(0), ref(7)),
		"a window was granted that cannot be":       give(0, placing.Ref{}),
	} {
		var token *TokenError
		if !errors.As(err, &token) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, it should say %q", err, says)
		}
	}
	if s.Granted() || s.missing[0] != 1 {
		t.Errorf("what was refused had an effect: %d are missing", s.missing)
	}
	if err := give(0, ref(0), ref(1)); err != nil || !s.Granted() {
		t.Errorf("%v, all granted %v", err, s.Granted())
	}
	if err := give(0, ref(0), ref(1), ref(2)); err != nil || !s.Granted() {
		t.Errorf("said twice: %v", err)
	}
}

func TestQuotaCycles(t *testing.T) {
	s := NewQuotaSchedule(0, 1, 2, 3)
	two := [][]tagnet.Token{{tok(0, 0), tok(1, 0)}, {none, tok(2, 1)}}
	var cycle *CycleError
	if err := s.Cycles(batch(1, two...)); !errors.As(err, &cycle) || cycle.Want != 0 {
		t.Error(err)
	}
	if err := s.Cycles(batch(0, []tagnet.Token{tok(0, 0)})); !errors.As(err, &cycle) || cycle.Places != 1 {
		t.Error(err)
	}
	for _, first := range []uint64{0, 2} {
		if err := s.Cycles(batch(first, two...)); err != nil {
			t.Error(err)
		}
	}
	if err := s.Cycles(&tagnet.Batch{}); err != nil { // a watermark alone
		t.Error(err)
	}
}

// TestQuotaAgainstModel opens, fills, sends and completes bursts at random, and holds what is needed against what is under way.
func TestQuotaAgainstModel(t *testing.T) {
	type under struct {
		burst   *Burst
		cookie  uint64
		lowest  uint64
		pending int
		tokens  int
	}
	rapid.Check(t, func(t *rapid.T) {
		bus := rapid.IntRange(1, 3).Draw(t, "bus")
		s := NewQuotaSchedule(0, 1, bus, 2)
		standing(t, s)
		small, large := make([]byte, link.MaxPiece), make([]byte, link.MaxPiece+1)
		var sent []under
		var released uint64
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				bu, from := rapid.IntRange(0, bus-1).Draw(t, "bu"), released+rapid.Uint64Range(0, 5).Draw(t, "from")
				b := s.Open(bu, from)
				if b == nil {
					if len(sent) < bus*burstsPerBU+1 {
						t.Fatalf("no burst with %d under way", len(sent))
					}
					t.Skip("all are under way")
				}
				if s.Release(from + 100); s.Needed() > from {
					t.Fatalf("MEPs below %d are given up while a burst from %d is filled", s.Needed(), from)
				}
				s.released = released
				u := under{burst: b, lowest: 1 << 60}
				for range rapid.IntRange(1, 4).Draw(t, "tokens") {
					mep, part := from+rapid.Uint64Range(0, 9).Draw(t, "mep"), small
					if rapid.Bool().Draw(t, "large") {
						part = large
						u.pending++
					}
					slot := rapid.Uint32Range(0, 1).Draw(t, "slot")
					if full, err := s.Add(b, mep, 3<<24|slot, part); err != nil || full {
						t.Fatal(full, err)
					}
					u.lowest = min(u.lowest, mep)
					u.tokens++
				}
				u.cookie = s.Send(b)
				if len(b.Pieces) > 0 {
					u.pending++
				}
				for _, p := range b.Pieces {
					if _, attempt, slot := placing.ParseImmediate(p.Imm); attempt != 3 || p.Ref != standingRef(bu+1, slot) {
						t.Fatalf("%+v", p)
					}
				}
				for _, w := range b.Large {
					if w.Cookie != u.cookie {
						t.Fatalf("%+v", w)
					}
				}
				sent = append(sent, u)
			},
			"complete": func(t *rapid.T) {
				if len(sent) == 0 {
					t.Skip("nothing is under way")
				}
				i := rapid.IntRange(0, len(sent)-1).Draw(t, "which")
				u := &sent[i]
				b, err := s.Complete(u.cookie)
				if err != nil {
					t.Fatal(err)
				}
				if u.pending--; (u.pending == 0) != (b == u.burst) {
					t.Fatalf("%d outcomes are to come, and it is over: %v", u.pending, b != nil)
				}
				if u.pending == 0 {
					sent = append(sent[:i], sent[i+1:]...)
				}
			},
			"complete nothing": func(t *rapid.T) {
				cookie := rapid.Uint64Range(0, 40).Draw(t, "cookie")
				for _, u := range sent {
					if u.cookie == cookie {
						t.Skip("it is under way")
					}
				}
				if _, err := s.Complete(cookie); err == nil {
					t.Fatal("a write ended that was not under way")
				}
			},
			"release": func(t *rapid.T) {
				released += rapid.Uint64Range(0, 10).Draw(t, "more")
				s.Release(released)
			},
			"": func(t *rapid.T) {
				want, tokens := released, 0
				for _, u := range sent {
					want, tokens = min(want, u.lowest), tokens+u.tokens
				}
				if s.Needed() != want || s.Transfers() != tokens || s.Busy() != (len(sent) > 0) {
					t.Fatalf("needed from %d, not %d; %d tokens, not %d; busy %v", s.Needed(), want, s.Transfers(), tokens, s.Busy())
				}
			},
		})
	})
}

func TestQuotaSlotThatIsNotThere(t *testing.T) {
	s := NewQuotaSchedule(0, 1, 1, 2)
	standing(t, s)
	var token *TokenError
	if _, err := s.Add(s.Open(0, 0), 9, 1<<24|2, nil); !errors.As(err, &token) || token.MEP != 9 || token.Slot != 2 {
		t.Error(err)
	}
}

func TestBurstIsFull(t *testing.T) {
	s := NewQuotaSchedule(0, 1, 1, 2)
	standing(t, s)
	b := s.Open(0, 0)
	for n := range maxBurst {
		if full, err := s.Add(b, uint64(n), 1<<24, nil); err != nil || full != (n == maxBurst-1) {
			t.Fatal(fmt.Sprint(n, full, err))
		}
	}
}
