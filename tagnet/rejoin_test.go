package tagnet

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// TestReadoutUnitComesBack holds how an excluded readout unit takes part again as another process: only when it is
// awaited, from the cycle and the MEP of its rejoin on, and with the rejoin told to all.
func TestReadoutUnitComesBack(t *testing.T) {
	sys := serve(t, small(2, 1))
	there, lost := sys.ru(t, "ru0"), sys.ru(t, "ru1")
	reported := make(chan []core.Absence, 8)
	bu, err := newBUClient(testContext(t), sys.conn, sys.scope("bu0"), sys.cfg.Core.Slots,
		BUHandlers{OnAbsences: func(all []core.Absence) { reported <- all }})
	must(t, err)
	defer bu.Close()
	must(t, there.Update(core.Update{ReadBelow: 8, Events: 8}))
	must(t, lost.Update(core.Update{ReadBelow: 1, Events: 1}))
	build := func(upTo uint64) (absences []core.Absence) {
		t.Helper()
		for next := uint64(0); next < upTo; {
			tokens := nextBatch(t, there)
			absences = append(absences, tokens.Absences...)
			for i := range tokens.Len() {
				if tok, ok := tokens.Token(i, 0); ok {
					must(t, bu.SendFeedback(built(tok, 1)))
					next = tok.MEP + 1
				}
			}
		}
		return absences
	}
	build(1)
	must(t, sys.server.ExcludeRU("ru1"))
	gone := []core.Absence{{RU: 1, FirstCycle: 1, FirstMEP: 1}}
	if got := build(8); !slices.Equal(got, gone) {
		t.Errorf("%+v was told, want %+v", got, gone)
	}
	_, err = newRUClient(testContext(t), sys.conn, sys.scope("ru1"), nil)
	if why, code := refusedAs(t, err); why != core.RefusedExcluded || code != codes.FailedPrecondition {
		t.Errorf("a readout unit that nobody awaits attached, or was refused as %v: %v", why, err)
	}
	must(t, sys.server.IncludeRU("ru1"))
	must(t, sys.server.IncludeRU("ru1"))
	var dropped []int
	again, err := newRUClient(testContext(t), sys.conn, sys.scope("ru1"), func(_ core.Role, unit int, back bool) {
		if !back {
			dropped = append(dropped, unit)
		}
	})
	must(t, err)
	defer again.Close()
	back := core.Absence{
		RU:         1,
		Rejoined:   true,
		FirstCycle: 8,
		FirstMEP:   8,
	}
	if got := again.RejoinPoint(); got != back {
		t.Errorf("the unit is back with %+v, want %+v", got, back)
	}
	if len(dropped) > 0 {
		t.Errorf("units %v were told to be gone, and they are back", dropped)
	}
	first := nextBatch(t, again)
	if want := []core.Absence{gone[0], back}; first.FirstCycle != 8 || first.Len() != 0 ||
		!slices.Equal(first.Absences, want) {
		t.Errorf("its first batch is %+v, want cycle 8 and %+v", first, want)
	}
	var received []core.Absence // in one message or in two
	for len(received) < 2 {
		received = append(received, patiently.Receive(t, reported,
			"the builder unit is not told that the unit went and came back")...)
	}
	if want := []core.Absence{gone[0], back}; !slices.Equal(received, want) {
		t.Errorf("the builder unit was told %+v, want %+v", received, want)
	}
	must(t, there.Update(core.Update{ReadBelow: 10, Events: 10}))
	must(t, again.Update(core.Update{ReadBelow: 9, Events: 1})) // it counts from its rejoin on
	tokens := nextBatch(t, again)
	for tokens.Len() == 0 { // what is released may come in a message of its own
		tokens = nextBatch(t, again)
	}
	if tokens.FirstCycle != 8 || tokens.Len() != 1 || tokens.MEPs[0] != 8 {
		t.Errorf("its first tokens are %+v, want MEP 8 in cycle 8", tokens)
	}
	r := sys.server.Registers().Rus[1]
	if len(r.Gone) != 1 || r.Gone[0].FromMep != 1 || !r.Gone[0].Back || r.Gone[0].BackMep != 8 || r.Gone[0].AtNs == 0 ||
		r.Gone[0].BackAtNs < r.Gone[0].AtNs || r.Events != 9 || r.Excluded {
		t.Errorf("the registers say %+v", r)
	}
}

// TestIncludingTooLate holds that nobody is awaited when nothing will be issued any more.
func TestIncludingTooLate(t *testing.T) {
	sys := serve(t, small(2, 1))
	sys.attachAll(t)
	must(t, sys.server.ExcludeRU("ru1"))
	sys.server.Drain(0)
	if err := sys.server.IncludeRU("ru1"); !errors.Is(err, core.NotNow) {
		t.Errorf("included while draining: %v", err)
	}
	if err := sys.server.IncludeRU("rux"); !errors.Is(err, errUnknownUnit) {
		t.Errorf("a unit that there is not was included: %v", err)
	}
}

// TestBuilderUnitsAreNotifiedOfTheDrain holds that builder units hear that the view drains while they still have MEPs:
// an output that waits for somebody else may have to let them through.
func TestBuilderUnitsAreNotifiedOfTheDrain(t *testing.T) {
	sys := serve(t, small(1, 1))
	rus, bus := sys.attachAll(t)
	must(t, rus[0].Update(core.Update{ReadBelow: 1, Events: 1}))
	tokens := nextBatch(t, rus[0])
	for tokens.Len() == 0 {
		tokens = nextBatch(t, rus[0])
	}
	tok, ok := tokens.Token(0, 0)
	if !ok || isClosed(bus[0].Draining()) {
		t.Fatal("there is no token, or the view drains from the beginning")
	}
	sys.server.Drain(0)
	select {
	case <-bus[0].Draining():
	case <-testContext(t).Done():
		t.Fatal("the builder unit does not hear of it")
	}
	must(t, bus[0].SendFeedback(built(tok, 1)))
	patiently.Receive(t, sys.server.Drained())
}
