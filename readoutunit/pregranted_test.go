package readoutunit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/source"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/transport/link"
)

// preGrantedRig makes a rig's windows pre-granted, in rounds of up to so many cycles.
func preGrantedRig(streams, buffers, most int, free bool) func(*rig, *Config) {
	return func(r *rig, c *Config) {
		s := newShift(c.RU, SeatsInOrder(c.RUs, len(c.BURanks)), len(c.BURanks), 2, !free)
		s.setMaxCycles(most)
		s.enablePreGranted()
		c.Retention, c.Streams, c.UnheldPhases, c.Transfers = newRetention(r.t, streams, c.Source.MaxBlock(),
			buffers), streams, free, s
	}
}

// TestRunPreGranted takes a unit alone through a whole run with pre-granted windows, with and without a fence, in
// pieces and in large writes.
func TestRunPreGranted(t *testing.T) {
	for _, streams := range []int{1, 3, 40} {
		for _, free := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d streams, free %v", streams, free), func(t *testing.T) {
				r := newRig(t, generator(t, streams), preGrantedRig(streams, 8, 1, free))
				r.fiveMEPs()
				if err := r.unit.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				r.close()
				want := []string{
					"MEP 0 to rank 5, slot 0", "MEP 1 to rank 6, slot 1", "MEP 2 to rank 7, slot 0", "MEP 3 to rank 5, slot 1",
					"MEP 4 to rank 7, slot 1",
				}
				if diff := cmp.Diff(want, r.net.order); diff != "" {
					t.Error(diff)
				}
				written := 0
				for mep := range uint64(5) {
					part := r.net.written[mep]
					if !bytes.Equal(part[streams*placing.EntrySize:], block(t, streams, mep)) {
						t.Errorf("MEP %d was not written as it was read", mep)
					}
					written += len(part)
				}
				s := r.unit.Stats()
				if s.MFPsRead != uint64(5*streams) || s.TokensReceived != 5 || s.BytesWritten != uint64(written) ||
					s.DummyPhases != 1 || s.OpenTransfers != 0 ||
					s.RefusedGrants != 0 || s.BadRecords != 0 || s.ConductingTime <= 0 || r.net.signals != 3 {
					t.Errorf("%+v, %d signals", s, r.net.signals)
				}
			})
		}
	}
}

// TestWideRounds holds that what came while a round was served goes together in the next.
func TestWideRounds(t *testing.T) {
	r := newRig(t, generator(t, 1), func(r *rig, c *Config) {
		preGrantedRig(1, 8, 4, false)(r, c)
		r.net.mute = true
		c.TimelineSteps = 6
	})
	r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
	r.sched.send(0, 0, []core.Token{newToken(0, 0), none, none})
	r.sched.send(1, 0, []core.Token{newToken(1, 1), newToken(2, 0), none},
		[]core.Token{none, newToken(3, 1), newToken(4, 1)})
	r.until("all tokens", func() bool { return r.unit.Stats().TokensReceived == 5 })
	r.net.mu.Lock()
	r.net.mute = false
	for _, rank := range []int{5, 6, 7} {
		r.net.preGrant(rank)
	}
	r.net.mu.Unlock()
	r.until("two rounds", func() bool { return r.unit.Stats().PhasesPassed == 6 })
	want := []TimelineStep{
		{Phase: 0, BU: 0, MEP: 0, MEPs: 1}, {Phase: 1, BU: Dummy}, {Phase: 2, BU: Dummy},
		{Phase: 3, BU: 0, MEP: 1, MEPs: 1}, {Phase: 4, BU: 1, MEP: 2, MEPs: 2}, {Phase: 5, BU: 2, MEP: 4, MEPs: 1},
	}
	got := r.unit.Timeline()
	for i := range got {
		got[i].BeginMicros, got[i].OutcomeMicros, got[i].ReleasedMicros = 0, 0, 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestFailuresPreGranted holds that whatever a unit cannot go on after is told in a sentence.
func TestFailuresPreGranted(t *testing.T) {
	broken := errors.New("the wire is cut")
	cycle := []core.Token{newToken(0, 0), newToken(1, 0), none}
	for name, tc := range map[string]struct {
		change func(*rig, *Config)
		cycles []core.Token
		says   string
		is     error
	}{
		"question not taken": {
			change: func(r *rig, _ *Config) { r.net.signal = func(n int) error { return map[int]error{2: broken}[n] } },
			cycles: cycle, says: "asking builder unit 1 for its windows: the wire is cut", is: broken,
		},
		"token for what is not held": {
			cycles: []core.Token{none, newToken(77, 1), none}, says: "MEP 77 is not among those from 0 up to 2 (exclusive)",
			is: errNotRetained,
		},
	} {
		for _, free := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, free %v", name, free), func(t *testing.T) {
				r := newRig(t, &scripted{blocks: 2, end: io.EOF}, func(r *rig, c *Config) {
					preGrantedRig(1, 8, 1, free)(r, c)
					if tc.change != nil {
						tc.change(r, c)
					}
				})
				r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
				r.sched.send(0, 0, tc.cycles)
				if err := r.failure(); !strings.Contains(err.Error(), tc.says) || !errors.Is(err, tc.is) {
					t.Errorf("it says %q, not %q", err, tc.says)
				}
				r.close()
			})
		}
	}
}

// TestWindowsOfTheOtherKind holds that a grant for one MEP is refused where windows are pre-granted, and
// pre-granted ones where they are not.
func TestWindowsOfTheOtherKind(t *testing.T) {
	r := newRig(t, &scripted{blocks: 1, end: io.EOF}, preGrantedRig(1, 2, 1, false))
	g := placing.Grant{
		Slot:    0,
		Attempt: 1,
		Window:  5,
		Gen:     1,
		Length:  40,
	}
	s := placing.PreGrants{Refs: []placing.Ref{{Window: 1, Gen: 1}}}
	errs := []error{
		r.unit.HandleGrant(5, g.Append(nil)), r.unit.HandlePreGrants(4, s.Append(nil)),
		r.unit.HandlePreGrants(5, []byte{byte(placing.KindPreGrants)}),
	}
	for i, says := range []string{
		"which has granted its windows for all MEPs", "rank 4 granted windows", "malformed",
	} {
		if errs[i] == nil || !strings.Contains(errs[i].Error(), says) {
			t.Errorf("%v, it should say %q", errs[i], says)
		}
	}
	if n := r.unit.Stats().RefusedGrants; n != 3 {
		t.Errorf("%d are counted", n)
	}
	other := newRig(t, &scripted{blocks: 1, end: io.EOF}, nil)
	if err := other.unit.HandlePreGrants(5, s.Append(nil)); err == nil || other.unit.Stats().RefusedGrants != 1 {
		t.Error("pre-granted windows are taken where each MEP has its own")
	}
}

// TestInvalidPreGrants holds that it is refused and changes nothing.
func TestInvalidPreGrants(t *testing.T) {
	s := newShift(0, SeatsInOrder(1, 1), 1, 3, false)
	s.enablePreGranted()
	ref := func(w uint32) placing.Ref { return placing.Ref{Window: w, Gen: 1} }
	preGrant := func(first uint32, refs ...placing.Ref) error {
		return s.applyPreGrants(0, &placing.PreGrants{FirstSlot: first, Refs: refs})
	}
	if err := preGrant(1, ref(1), ref(2)); err != nil {
		t.Error(err)
	}
	for says, err := range map[string]error{
		"in 2 slots from there on, but there are 3": preGrant(2, ref(1), ref(2)),
		"4 slots from there on":                     preGrant(1<<32-1, ref(1), ref(2), ref(3), ref(4)),
		"slot 1 of builder unit 0: another window":  preGrant(0, ref(0), ref(7)),
		"an empty window was granted":               preGrant(0, placing.Ref{}),
	} {
		var token *tokenError
		if !errors.As(err, &token) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, it should say %q", err, says)
		}
	}
	if s.builders[0].preGranted[0].Gen != 0 {
		t.Error("what was refused had an effect")
	}
	if err := errors.Join(preGrant(0, ref(0), ref(1)), preGrant(0, ref(0), ref(1), ref(2))); err != nil {
		t.Error(err)
	}
}

// TestCloseAtAnyMomentPreGranted closes a unit after each of the steps of a run that the network sees.
func TestCloseAtAnyMomentPreGranted(t *testing.T) {
	for _, free := range []bool{false, true} {
		for step := range 12 {
			r := newRig(t, generator(t, 1), preGrantedRig(1, 2, 2, free))
			if step > 0 {
				r.until("two blocks", func() bool { return r.sched.last().ReadBelow == 2 })
				r.sched.send(0, 0, []core.Token{newToken(0, 0), newToken(1, 1), none})
				for range step {
					select {
					case <-r.net.progress:
					case <-time.After(time.Millisecond):
					}
				}
			}
			if step%2 == 0 {
				r.close()
			} else if err := r.unit.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// instantNetwork is a network that completes each write before it returns.
type instantNetwork struct {
	unit *Unit
	refs int
}

func (n *instantNetwork) WriteMany(rank int, _ []link.Piece, cookie uint64) error {
	n.unit.HandleCompletion(rank, cookie, nil)
	return nil
}

func (n *instantNetwork) RelocateWrite(int, uint64, func(int) []byte) bool { return false }

func (n *instantNetwork) Signal(rank int, _ []byte) error {
	for first := 0; first < n.refs; first += placing.MaxPreGrants {
		m := placing.PreGrants{FirstSlot: uint32(first)}
		for i := range min(placing.MaxPreGrants, n.refs-first) {
			m.Refs = append(m.Refs, placing.Ref(preGrantedRef(rank, uint32(first+i))))
		}
		if err := n.unit.HandlePreGrants(rank, m.Append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// loop is a unit that is driven by hand: the work of its goroutines for some cycles at a time, the scheduler being the
// test.
type loop struct {
	u       *Unit
	batch   tagnet.Tokens
	mep     uint64
	actions []Action
}

const loopCycles, loopBUs, loopSlots = 512, 2, 4096

func newLoop(t testing.TB, prepared bool) *loop {
	g := source.GeneratorConfig{
		Division:     placing.EvenDivision(2, 1),
		Packing:      1,
		FragmentSize: 128,
		Model:        pattern.Constant,
	}
	gen, err := source.NewGenerator(g)
	if err != nil {
		t.Fatal(err)
	}
	const buffers = 4 * loopCycles * loopBUs
	var src source.Source = gen
	if prepared {
		if src, err = source.NewPrepared(g, buffers, buffers); err != nil {
			t.Fatal(err)
		}
	}
	net := &instantNetwork{refs: loopSlots}
	order := newShift(0, SeatsInOrder(2, loopBUs), loopBUs, loopSlots, false)
	order.setMaxCycles(loopCycles)
	order.enablePreGranted()
	u := New(Config{
		CoreConfig: CoreConfig{
			RUs:          2,
			Streams:      1,
			Transfers:    order,
			Retention:    newRetention(t, 1, gen.MaxBlock(), buffers),
			UnheldPhases: true,
		},
		BURanks: []int{1, 2},
		Source:  src,
		Network: net,
		Fail:    func(err error) { t.Error(err) },
	})
	net.unit = u
	l := &loop{u: u}
	for range loopCycles * loopBUs {
		l.batch.MEPs, l.batch.Slots = append(l.batch.MEPs, 0), append(l.batch.Slots, 0)
	}
	l.batch.PlacesPerCycle = loopBUs
	return l
}

func (l *loop) turn(t testing.TB) {
	n := loopCycles * loopBUs
	for remaining := n; remaining > 0; {
		_, strip, sizes, err := l.u.awaitBuffers(remaining)
		if err != nil {
			t.Fatal(err)
		}
		run, err := l.u.source.NextBlocks(t.Context(), strip, sizes[:min(remaining, len(sizes))])
		if err != nil {
			t.Fatal(err)
		}
		l.u.cfg.Retention.commit(run.Blocks)
		remaining -= run.Blocks
	}
	l.batch.Released = l.mep
	for i := range n {
		l.batch.MEPs[i], l.batch.Slots[i] = l.mep, 1<<24|uint32(i/loopBUs)
		l.mep++
	}
	var err error
	if l.actions, err = l.u.request(&Input{Kind: TokensCame, Tokens: &l.batch}, l.actions); err != nil {
		t.Fatal(err)
	}
	for {
		err := l.u.notify(&Input{Kind: ConductorFree, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		a := l.u.actions[0]
		if a.Kind == Wait {
			break
		}
		if a.Kind == Write {
			if err := l.u.write(&a); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.batch.FirstCycle += loopCycles
}

func TestUnitAllocatesNothing(t *testing.T) {
	l := newLoop(t, false)
	l.turn(t)
	l.turn(t)
	if n := testing.AllocsPerRun(20, func() { l.turn(t) }); n > 0 {
		t.Errorf("%v allocations for %d tokens", n, loopCycles*loopBUs)
	}
	if s := l.u.Stats(); s.PartsWritten != l.mep || s.OpenTransfers != 0 {
		t.Errorf("%+v", s)
	}
}

// BenchmarkUnit is a readout unit of one stream of 128 bytes, packing 1, with two builder units: reading, tokens,
// bursts, and their completion; the network and the scheduler cost nothing.
func BenchmarkUnit(b *testing.B) {
	for _, prepared := range []bool{false, true} {
		b.Run(fmt.Sprintf("prepared %v", prepared), func(b *testing.B) {
			l := newLoop(b, prepared)
			b.ReportAllocs()
			for n := 0; n < b.N; n += loopCycles * loopBUs {
				l.turn(b)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
