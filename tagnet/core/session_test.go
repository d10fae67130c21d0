package core

import (
	"errors"
	"slices"
	"testing"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

const testTerm = 77

func newTestCore(t *testing.T, cfg Config) *Core {
	t.Helper()
	c, err := New(Settings{View: cfg, Term: testTerm, Began: 1_000_000_000})
	must(t, err)
	return c
}

func refusal(err error) Refusal {
	var e *SessionError
	if errors.As(err, &e) {
		return e.Why
	}
	return ""
}

// attachAll attaches every unit with its index + 1 as session and, behind those of readout units, as stream.
func attachAll(t *testing.T, c *Core) {
	t.Helper()
	stream := uint64(0)
	for role := range c.sessions {
		for i := range c.sessions[role] {
			stream++
			a := c.Step(1, Attach{Unit: Unit{Role(role), i}, Stream: stream, Session: uint64(i + 1)})
			must(t, a.Err)
		}
	}
}

// TestResumingIsOneComparison: who names a position of this scheduler is continued there, and everybody else is
// refused.
func TestResumingIsOneComparison(t *testing.T) {
	c := newTestCore(t, view(1, 1))
	attachAll(t, c)
	c.Ready(2)
	must(t, c.Step(3, Report{Unit: 0, Stream: 1, Update: Update{ReadBelow: 1, Events: 1, InputEnded: true}}).Err)
	all := c.Ready(4).Notices
	end := all[len(all)-1].Sequence + 1
	for i, tt := range []struct {
		had  Position
		want Refusal
	}{
		{Position{testTerm, end}, ""},
		{Position{testTerm, 2}, ""},
		{Position{testTerm, end + 1}, RefusedMessage},
		{Position{testTerm, 0}, RefusedMessage},
		{Position{testTerm + 1, 2}, RefusedMessage},
	} {
		a := c.Step(5, Attach{Unit: Unit{Readout, 0}, Stream: uint64(10 + i), Session: 1, Had: tt.had})
		if refusal(a.Err) != tt.want || tt.want == "" && (a.Next != tt.had.Next || len(a.Known) > 0) {
			t.Errorf("%+v: %+v, want %q", tt.had, a, tt.want)
		}
	}
	if a := c.Step(6, Attach{Unit: Unit{Readout, 0}, Stream: 20, Session: 9}); refusal(a.Err) != RefusedSecondAttach {
		t.Errorf("another session: %v", a.Err)
	}
	// Who has not heard anything yet is told once more what it was told at first.
	if a := c.Step(7, Attach{Unit: Unit{Readout, 0}, Stream: 21, Session: 1}); a.Err != nil || len(a.Known) != 1 ||
		a.Next != a.Known[0].Sequence+1 {
		t.Errorf("from the beginning: %+v", a)
	}
}

// TestBuilderUnitGoesByWhatItHad holds that a builder unit's position says by how many absences it goes, and that one
// that was never sent cuts it off.
func TestBuilderUnitGoesByWhatItHad(t *testing.T) {
	c := newTestCore(t, view(3, 1))
	attachAll(t, c)
	c.Ready(2)
	exclude := func(ru int) uint64 {
		must(t, c.Step(3, Command{Operation: tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU, Unit: ru}).Err)
		all := c.Ready(4).Notices
		at := slices.IndexFunc(all, func(n Notice) bool { return len(n.Absences) > 0 })
		if at < 0 || all[at].For&(ForBuilders|ForReadouts) != ForBuilders|ForReadouts {
			t.Fatalf("the exclusion of ru%d is published as %+v", ru, all)
		}
		return all[at].Sequence
	}
	first, second := exclude(0), exclude(1)
	goBy := func(next uint64) {
		c.Step(5, Outcomes{Unit: 0, Stream: 4, Batch: &tagnetv1.FeedbackBatch{Had: &tagnetv1.Position{Term: testTerm,
			Next: next}}})
	}
	for _, tt := range []struct {
		next uint64
		want int
	}{{first, 0}, {first + 1, 1}, {second, 1}, {second + 1, 2}} {
		if goBy(tt.next); c.alloc.bus[0].ackedAbsences != tt.want {
			t.Errorf("up to notice %d it goes by %d absences, want %d", tt.next, c.alloc.bus[0].ackedAbsences, tt.want)
		}
	}
	goBy(c.next + 1)
	r := c.Ready(6)
	if len(r.Ended) != 1 || r.Ended[0].Stream != 4 || refusal(r.Ended[0].Err) != RefusedInput ||
		r.Notices[0].Incident == nil || r.Notices[0].Incident.Incident != UnitMisbehaved {
		t.Errorf("a position that was never sent: %+v", r)
	}
}

// TestNoticesAreSplit holds that no notice is too long, and that together they are what was to be told, in order.
func TestNoticesAreSplit(t *testing.T) {
	cuts := make([]Cut, 2*MaxCutsPerNotice+5)
	for i := range cuts {
		cuts[i] = Cut{uint64(i), 1}
	}
	issued := Batch{FirstCycle: 7, PlacesPerCycle: 3}
	for range 2 * MaxTokensPerNotice / 3 {
		issued.appendEmptyCycle()
	}
	n := Notice{For: ForReadouts | ForControl, Absences: []Absence{{RU: 1}}, Tags: make([]Tag, 2), CutsOver: true}
	var got []Notice
	split(n, cuts, issued, func(n Notice, last bool) {
		if got = append(got, n); last != (len(n.Tags) > 0) || last != (n.For&ForControl != 0) {
			t.Errorf("%d tags and audience %b in notice %d, the last: %v", len(n.Tags), n.For, len(got), last)
		}
	})
	next, cutsSeen, tokens := uint64(7), 0, 0
	for i, n := range got {
		if (i == 0) != (len(n.Absences) > 0) || n.FirstCycle != next || len(n.Cuts) > MaxCutsPerNotice ||
			len(n.MEPs) > MaxTokensPerNotice || n.CutsOver && cutsSeen+len(n.Cuts) < len(cuts) {
			t.Errorf("notice %d: %d absences, cycle %d, %d cuts (over %v), %d tokens", i, len(n.Absences), n.FirstCycle,
				len(n.Cuts), n.CutsOver, len(n.MEPs))
		}
		for _, c := range n.Cuts {
			if c.FirstEvent != uint64(cutsSeen) {
				t.Fatalf("cut %d is %+v", cutsSeen, c)
			}
			cutsSeen++
		}
		next += uint64(n.Len())
		tokens += len(n.MEPs)
	}
	if cutsSeen != len(cuts) || tokens != len(issued.MEPs) || !got[len(got)-1].CutsOver {
		t.Errorf("%d cuts and %d tokens in %d notices", cutsSeen, tokens, len(got))
	}
}

// TestLostBuilderUnitComesBack holds that a lost builder unit takes part again only as another process, only after the
// control has asked for it, and that readout units then learn that it is back.
func TestLostBuilderUnitComesBack(t *testing.T) {
	c := newTestCore(t, view(1, 2))
	attachAll(t, c)
	c.Ready(2)
	bu := Unit{Builder, 1}
	command := func(op tagnetv1.ControlRequest_Operation) {
		t.Helper()
		must(t, c.Step(3, Command{Operation: op, Unit: bu.Index}).Err)
	}
	attach := func(session, stream uint64) Refusal {
		return refusal(c.Step(4, Attach{Unit: bu, Stream: stream, Session: session}).Err)
	}
	withdrawals := func() (all []Withdrawal) {
		for _, n := range c.Ready(5).Notices {
			all = append(all, n.Withdrawals...)
		}
		return all
	}
	command(tagnetv1.ControlRequest_OPERATION_LOSE_BU)
	if all := withdrawals(); len(all) != 1 || !all[0].Lost || all[0].Returned {
		t.Errorf("the loss is published as %+v", all)
	}
	if why := attach(9, 20); why != RefusedExcluded {
		t.Errorf("a new process attaches before it is wanted: %q", why)
	}
	if a := c.Step(3, Command{Operation: tagnetv1.ControlRequest_OPERATION_INCLUDE_BU, Unit: 1}); a.Err == nil {
		t.Error("a lost unit may be included")
	}
	if why := attach(9, 20); why != RefusedExcluded {
		t.Errorf("it attaches all the same: %q", why)
	}
	command(tagnetv1.ControlRequest_OPERATION_READMIT_BU)
	if why := attach(2, 21); why != RefusedExcluded || !c.alloc.bus[1].lost {
		t.Errorf("the former process attaches: %q", why)
	}
	if why := attach(9, 22); why != "" {
		t.Errorf("the new process is refused: %q", why)
	}
	if all := withdrawals(); len(all) != 1 || all[0].Lost || !all[0].Returned || all[0].BU != 1 {
		t.Errorf("the return is published as %+v", all)
	}
	if b := &c.alloc.bus[1]; b.lost || b.excluded || b.freeSlots.len() != c.alloc.cfg.Slots || c.alloc.activeBUs != 2 {
		t.Errorf("after the return it is %+v, and %d builder units are active", b, c.alloc.activeBUs)
	}
	command(tagnetv1.ControlRequest_OPERATION_LOSE_BU)
	if why := attach(10, 23); why != RefusedExcluded {
		t.Errorf("the second loss is not one: %q", why)
	}
}
