package run

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/ecs/partition/fault"
)

// TestEveryRunCloses holds, for anything that happens in any order: what is awaited and done closes a run that is to
// end; nobody hears of its end before it is written down; nodes are stopped once and dropped once at most, and it is
// closed once, for a reason.
func TestEveryRunCloses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{ByItself: EndEvents}
		now, awaits := epoch, false
		count := map[Action]int{}
		written := false
		step := func(in Input) {
			now = now.Add(time.Second)
			in.At = now
			before := s
			var do []Action
			s, do = s.Step(in)
			for _, a := range do {
				count[a]++
				awaits = awaits || a.IsAwaited()
				written = written || a == Write && !s.Ending.IsZero()
				if (a == Drain || a == Drop) && !written && before.Phase != Beginning {
					t.Fatalf("%v by %v in %v is not written down", a, in.Kind, before.Phase)
				}
			}
			if s.Phase != before.Phase {
				awaits = slices.ContainsFunc(do, Action.IsAwaited)
			}
			switch {
			case s.Phase < before.Phase && before.Phase != Pausing && before.Phase != Paused && before.Phase != Resuming:
				t.Fatalf("%v leads from %v to %v", in.Kind, before.Phase, s.Phase)
			case s.Phase == before.Phase && s.Ticket != before.Ticket, s.Phase != before.Phase && s.Ticket == before.Ticket:
				t.Fatalf("%v leads from %v to %v, with the tickets %d and %d", in.Kind, before.Phase, s.Phase, before.Ticket,
					s.Ticket)
			case s.Phase >= Closing && s.End == "":
				t.Fatalf("it is closed for no reason after %v", in.Kind)
			case s.GivenUp != (count[Drop] > 0):
				t.Fatalf("given up is %v, and nodes were told to drop it %d times", s.GivenUp, count[Drop])
			case count[End] > 1 || count[Drop] > 1 || count[Close] > 1:
				t.Fatalf("stopped %d times, dropped %d times, closed %d times", count[End], count[Drop], count[Close])
			}
		}
		some := &fault.Fault{Component: "n2", What: "broke"}
		first := rapid.SampledFrom([]Kind{Open, FoundUnbegun, FoundStruck, FoundOver, FoundEnding, FoundPaused, FoundGoing}).
			Draw(t, "first")
		in := Input{Kind: first, Fault: some}
		if first != Open && first != FoundPaused && first != FoundGoing {
			in.Reason = EndControlLost
		}
		if first == FoundStruck || first == FoundEnding {
			in.Found.Ending = epoch
			written = true
		}
		step(in)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			kind := rapid.SampledFrom([]Kind{Done, Failed, Pause, Resume, Stop, Finish, Abandon, GiveUp, Drained, TimeOver,
				Interrupted, Struck, Lost, Excluded, Needed}).Draw(t, "kind")
			in := Input{Kind: kind, Fault: some, By: "alice", Node: "n2", Ticket: s.Ticket}
			if rapid.Bool().Draw(t, "late") {
				in.Ticket--
			}
			if rapid.Bool().Draw(t, "asked") || s.End == "" {
				in.Reason = EndStopped
			}
			step(in)
		}
		if s.Phase.IsGoing() {
			step(Input{Kind: Abandon, By: "alice", Reason: EndStopped})
		}
		for s.Phase != Closed {
			if !awaits {
				t.Fatalf("in %v nothing is awaited", s.Phase)
			}
			step(Input{Kind: Done, Ticket: s.Ticket})
		}
	})
}

// TestTableIsOne holds that no two rows are of the same, that every phase can be left and that every action is awaited
// by a row which answers it.
func TestTableIsOne(t *testing.T) {
	seen := map[string]bool{}
	left := map[Phase]bool{}
	for _, r := range table {
		for _, in := range r.in {
			left[in] = true
			for _, on := range r.on {
				key := fmt.Sprint(in, on)
				if seen[key] {
					t.Errorf("two rows are of %v in %v", on, in)
				}
				seen[key] = true
			}
		}
		if awaited := slices.ContainsFunc(r.do, Action.IsAwaited); awaited && find(r.to, Done) == nil {
			t.Errorf("nothing answers %v", r.do)
		}
		if i := slices.IndexFunc(r.do, Action.IsAwaited); i >= 0 && i != len(r.do)-1 {
			t.Errorf("of %v one that is awaited is not the last", r.do)
		}
	}
	for p := range Closed {
		if !left[p] {
			t.Errorf("nothing leads out of %v", p)
		}
	}
}
