package tagnet

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// TestSuccessorGoesOn moves all units in the middle of a run to the successor of their scheduler, twice: every MEP is
// built once, and the last successor counts them all.
func TestSuccessorGoesOn(t *testing.T) {
	const total = 400
	cfg := twoByTwo()
	sys := serve(t, serverConfig{Core: cfg})
	rus, bus := sys.attachAll(t)
	var mu sync.Mutex
	parts, builds := map[core.Token]int{}, map[uint64]int{}
	half, moved := make(chan struct{}), make(chan struct{})
	place := func(tok core.Token) error {
		mu.Lock()
		parts[tok]++
		whole := parts[tok] == len(rus)
		if whole {
			if builds[tok.MEP]++; len(builds) == total/4 || len(builds) == total/2 {
				half <- struct{}{}
				<-moved // bounded by takeOver, which has a time-out
			}
		}
		mu.Unlock()
		if !whole {
			return nil
		}
		return bus[tok.BU].SendFeedback(built(tok, 1))
	}
	var units errgroup.Group
	for _, ru := range rus {
		units.Go(func() error { return readAhead(testContext(t), ru, total, 64, 1, place) })
	}
	var last *hosted
	for range 2 {
		patiently.Receive(t, half)
		last = host(t, Access{})
		takeOver(t, last, cfg, rus, bus)
		moved <- struct{}{}
	}
	must(t, patiently.Result(t, units.Wait))
	patiently.Receive(t, last.host.Server().Drained())
	counts := last.host.Server().Registers().GetCounters()
	if counts.GetBuilt() != total || counts.GetIssued() != total || counts.GetEventsBuilt() != total {
		t.Errorf("the successor counts %v", counts)
	}
	for _, n := range counts.GetRefused() {
		if n > 0 {
			t.Errorf("inputs were refused: %v", counts)
		}
	}
	for mep := range uint64(total) {
		if builds[mep] != 1 {
			t.Errorf("MEP %d was built %d times", mep, builds[mep])
		}
	}
}

// TestSuccessorGoesOnCutting is the same for live data: each event is in one MEP, and all units hear the same cuts.
func TestSuccessorGoesOnCutting(t *testing.T) {
	const events = 1000
	cfg := twoByTwo()
	cfg.Live, cfg.Packing, cfg.Window = true, 3, 16
	sys := serve(t, serverConfig{Core: cfg})
	rus, bus := sys.attachAll(t)
	var mu sync.Mutex
	parts, built, cuts := map[core.Token]int{}, uint64(0), [2][]core.Cut{}
	half, moved := make(chan struct{}), make(chan struct{})
	place := func(tok core.Token, cut core.Cut) error {
		mu.Lock()
		parts[tok]++
		whole := parts[tok] == len(rus)
		if whole {
			built++
		}
		waits := whole && (built == 100 || built == 200)
		mu.Unlock()
		if waits {
			half <- struct{}{}
			<-moved // bounded by takeOver, which has a time-out
		}
		if !whole {
			return nil
		}
		return bus[tok.BU].SendFeedback(core.Feedback{MEP: tok.MEP, Slot: tok.Slot, Events: cut.Events,
			Attempt: tok.Attempt, Outcome: core.Built})
	}
	var units errgroup.Group
	for i, ru := range rus {
		units.Go(func() error { return cutAndSend(testContext(t), ru, events, &cuts[i], place) })
	}
	var last *hosted
	for range 2 {
		patiently.Receive(t, half)
		last = host(t, Access{})
		takeOver(t, last, cfg, rus, bus)
		moved <- struct{}{}
	}
	must(t, patiently.Result(t, units.Wait))
	patiently.Receive(t, last.host.Server().Drained())
	counts := last.host.Server().Registers().GetCounters()
	if counts.GetEventsBuilt() != events || counts.GetEventsIssued() != events || counts.GetBuilt() != built {
		t.Errorf("%d MEPs were built, and the successor counts %v", built, counts)
	}
	end := uint64(0)
	for mep, cut := range cuts[0] {
		if cut.FirstEvent != end || cuts[1][mep] != cut {
			t.Fatalf("MEP %d has %+v and %+v, where event %d is next", mep, cut, cuts[1][mep], end)
		}
		end += uint64(cut.Events)
	}
}

// cutAndSend is a readout unit that has all events from the beginning, and reads a MEP when it is cut.
func cutAndSend(ctx context.Context, ru *RUClient, events uint64, cuts *[]core.Cut,
	place func(core.Token, core.Cut) error) error {
	read, end := core.Update{}, uint64(0)
	report := func() error {
		return errors.Join(ru.Update(read), ru.ReportReach(core.Reach{FirstUncut: end, CompleteBelow: events,
			FlushBelow: events, Ended: true}))
	}
	if err := report(); err != nil {
		return err
	}
	for {
		tokens, err := ru.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for _, cut := range tokens.Cuts {
			*cuts = append(*cuts, cut)
			read.ReadBelow, read.Events = read.ReadBelow+1, read.Events+uint64(cut.Events)
			end = cut.FirstEvent + uint64(cut.Events)
		}
		read.InputEnded = read.InputEnded || tokens.CutsOver
		if err := report(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := range tokens.Len() {
			for j := range tokens.PlacesPerCycle {
				if tok, ok := tokens.Token(i, j); ok {
					if err := place(tok, (*cuts)[tok.MEP]); err != nil {
						return err
					}
				}
			}
		}
	}
}

// takeOver makes a successor on a host, and moves all units to it.
func takeOver(t *testing.T, h *hosted, cfg core.Config, rus []*RUClient, bus []*BUClient) {
	t.Helper()
	for _, ru := range rus {
		if !ru.moveTo(h.dial()) {
			t.Fatalf("a session is over: %v", ru.Err())
		}
	}
	must(t, beginSuccessorWith(t, h, cfg, func() {
		for _, bu := range bus {
			if !bu.moveTo(h.dial()) {
				t.Errorf("a session is over: %v", bu.Err())
			}
		}
	}))
}

// beginSuccessorWith begins a successor, and calls move meanwhile.
func beginSuccessorWith(t *testing.T, h *hosted, cfg core.Config, move func()) error {
	t.Helper()
	began := make(chan error, 1)
	go func() {
		began <- BeginSuccessor(testContext(t), h.dial(), seventh, cfg, Succession{RUs: cfg.RUs, BUs: cfg.BUs,
			Wait: testTimeout, FirstTokenNs: time.Now().UnixNano()})
	}()
	move()
	return patiently.Receive(t, began)
}

// TestSuccessorWithoutAUnit holds that a successor goes on without a unit that does not come, and reports it.
func TestSuccessorWithoutAUnit(t *testing.T) {
	cfg := twoByTwo()
	sys := serve(t, serverConfig{Core: cfg})
	rus, bus := sys.attachAll(t)
	for _, ru := range rus {
		must(t, ru.Update(core.Update{ReadBelow: 4, Events: 4, InputEnded: true}))
	}
	h := host(t, Access{})
	for _, ru := range rus {
		ru.moveTo(h.dial())
	}
	bus[0].moveTo(h.dial())
	must(t, BeginSuccessor(testContext(t), h.dial(), seventh, cfg, Succession{RUs: cfg.RUs, BUs: cfg.BUs,
		Wait: 200 * time.Millisecond}))
	missing := make(chan *core.UnitError, 1)
	r := NewRemote(h.dial(), RemoteConfig{Scope: seventh, OnIncident: func(e *core.UnitError) { missing <- e }})
	defer r.Close()
	if e := patiently.Receive(t, missing); e.Unit != "bu1" || e.Incident != core.UnitMissing {
		t.Errorf("got %v, want that bu1 is missing", e)
	}
	done := map[uint64]bool{}
	for len(done) < 4 {
		tokens := nextBatch(t, rus[0])
		for i := range tokens.Len() {
			if tok, ok := tokens.Token(i, 0); ok {
				done[tok.MEP] = true
				must(t, bus[0].SendFeedback(built(tok, 1)))
			}
		}
	}
	patiently.Receive(t, r.Drained())
}
