package node_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"ringlet/barrier"
	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/event/placing"
	"ringlet/node/config"
	"ringlet/readoutunit"
	"ringlet/shmem"
	"ringlet/source"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
)

const (
	slots  = 2
	events = 38 // not a multiple of 4: the last MFP is short
)

// TestUnitsAgree runs whole event builders in this process: real readout and builder units, TagNet's core as the
// scheduler, and function calls as the network. It holds that every MEP is built and that the accounts of all balance.
func TestUnitsAgree(t *testing.T) {
	for _, kind := range []barrier.Kind{barrier.None, barrier.Tournament, barrier.Dissemination} {
		for _, preGranted := range []bool{false, true} {
			for _, packing := range []int{1, 4} {
				for _, rus := range []int{1, 2, 3, 5} {
					for _, bus := range []int{1, 2, 3, 5} {
						slack := (rus + bus + packing) % readoutunit.PhaseCount(rus, bus)
						name := fmt.Sprintf("%s/pre-granted %v/packing %d/%d to %d/slack %d", kind, preGranted, packing, rus, bus, slack)
						t.Run(name, func(t *testing.T) {
							s := newSystem(t, barred{kind, slack}, nil, preGranted, packing, rus, bus)
							s.run()
							s.check()
						})
					}
				}
			}
		}
	}
}

// system is an event builder without a network. Readout unit i has rank i; builder unit j has rank rus+j.
type system struct {
	t                  *testing.T
	pull               *builderunit.Pull // nil for a shift
	packing, rus, bus  int
	division           placing.Division
	layout             *placing.Layout // nil where windows are granted for each MEP
	units              []*readoutunit.Unit
	builders           []*builderunit.Builder
	tables             []*shmem.Table
	sinks              []*sink.Discard
	barriers           []*barrier.Barrier
	failed             chan error
	drained            chan struct{}
	tokens             []chan tagnet.Tokens // by readout unit
	mu                 sync.Mutex           // guards what follows
	core               *tagcore.Allocator
	batch              tagcore.Batch
	released, finished uint64
	held               []uint64 // what was held up when tokens were last given
}

// barred is what holds the phases.
type barred struct {
	kind  barrier.Kind
	slack int
}

func newSystem(t *testing.T, by barred, pull *builderunit.Pull, preGranted bool, packing, rus, bus int) *system {
	s := &system{
		t:       t,
		pull:    pull,
		packing: packing,
		rus:     rus,
		bus:     bus,
		failed:  make(chan error, rus+bus),
		drained: make(chan struct{}),
	}
	var counts []int
	for ru := range rus {
		counts = append(counts, 1+2*ru%3) // 1, 3, 2, 1, 3
	}
	s.division = placing.NewDivision(counts...)
	if preGranted {
		s.layout = s.layOut()
	}
	cfg := tagcore.Config{Slots: slots, Packing: packing}
	if pull != nil {
		cfg.Loose, cfg.Rules.TurnOrder = true, tagcore.ByDemand
	}
	for i := range rus {
		cfg.RUs = append(cfg.RUs, fmt.Sprint("ru", i))
		s.tokens = append(s.tokens, make(chan tagnet.Tokens, 2*events))
	}
	for j := range bus {
		cfg.BUs = append(cfg.BUs, fmt.Sprint("bu", j))
	}
	var err error
	if s.core, err = tagcore.NewAllocator(cfg); err != nil {
		t.Fatal(err)
	}
	for j := range bus {
		s.addBuilder(j)
	}
	for i := range rus {
		s.addReadout(i, by)
	}
	return s
}

func (s *system) generator(ru int) source.GeneratorConfig {
	return source.GeneratorConfig{
		RU:           ru,
		Division:     s.division,
		Packing:      s.packing,
		FragmentSize: 100,
		Events:       events,
		CRC:          true,
		Seed:         5,
	}
}

// layOut shares a slot out by what the sources say of themselves, and holds that the configuration says the same.
func (s *system) layOut() *placing.Layout {
	c := config.Default()
	c.RUs, c.BUs, c.Packing, c.FragmentSize, c.Events, c.Seed = s.rus, s.bus, s.packing, 100, events, 5
	c.SetDivision(s.division)
	if err := c.Complete(); err != nil {
		s.t.Fatal(err)
	}
	l, err := c.SlotLayout()
	if err != nil {
		s.t.Fatal(err)
	}
	for ru := range s.rus {
		src, err := source.NewGenerator(s.generator(ru))
		if err != nil {
			s.t.Fatal(err)
		}
		if _, windowSize := l.PartRange(ru); windowSize != placing.PartSize(s.division.SourceCount(ru), src.MaxBlock()) ||
			c.PreGrantedLayout() == nil {
			s.t.Errorf("readout unit %d has a window of %d bytes for blocks of %d, pre-granted %v", ru, windowSize,
				src.MaxBlock(), c.PreGrantedLayout() != nil)
		}
	}
	return l
}

func (s *system) addBuilder(bu int) {
	memory, err := shmem.CreateSlots("ringlet-test-slots", slots, 1<<14, shmem.WithDir(s.t.TempDir()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = memory.Close() })
	rule, err := s.generator(0).Pattern()
	if err != nil {
		s.t.Fatal(err)
	}
	s.tables = append(s.tables, shmem.NewTable(slots*s.rus))
	s.sinks = append(s.sinks, &sink.Discard{})
	ranks := make([]int, s.rus)
	for i := range ranks {
		ranks[i] = i
	}
	var pull builderunit.Pull
	var held []builderunit.MEPResult
	if s.pull != nil {
		pull = *s.pull
		pull.FirstUnit = bu % s.rus
	}
	b, err := builderunit.New(builderunit.Config{
		Slots:    memory,
		Table:    s.tables[bu],
		Signaler: network{s, s.rus + bu},
		RURanks:  ranks,
		Verify:   builderunit.VerifyFull,
		Layout:   s.layout,
		Pattern:  rule,
		Sink:     s.sinks[bu],
		Fail:     func(err error) { s.failed <- err },
		Pull:     pull,
		Decide: func(_ context.Context, r *builderunit.Region) error {
			r.Decide(s.decide(r.Meta.MEP, r.MFPs))
			return nil
		},
		OnResults: func(results []builderunit.MEPResult) error {
			if held = append(held, results...); results[len(results)-1].ReportHeld {
				return nil
			}
			for _, r := range held {
				if err := s.feedback(bu, r); err != nil {
					return err
				}
			}
			held = held[:0]
			return nil
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.builders = append(s.builders, b)
}

func (s *system) addReadout(ru int, by barred) {
	src, err := source.NewGenerator(s.generator(ru))
	if err != nil {
		s.t.Fatal(err)
	}
	core, err := barrier.NewCore(by.kind, s.rus, ru)
	if err != nil {
		s.t.Fatal(err)
	}
	s.barriers = append(s.barriers, barrier.New(core, neighbours{s, ru}, barrier.Options{Slack: by.slack}))
	ranks := make([]int, s.bus)
	for j := range ranks {
		ranks[j] = s.rus + j
	}
	cfg := readoutunit.Config{
		CoreConfig: readoutunit.CoreConfig{
			RU:           ru,
			RUs:          s.rus,
			Streams:      s.division.SourceCount(ru),
			UnheldPhases: by.kind == barrier.None,
		},
		BURanks:   ranks,
		Source:    src,
		Network:   network{s, ru},
		Scheduler: scheduler{s, ru},
		Barrier:   s.barriers[ru],
		Fail:      func(err error) { s.failed <- err },
	}
	blockSize := placing.PartSize(s.division.SourceCount(ru), src.MaxBlock())
	if cfg.Retention, err = readoutunit.NewRetention(make([]byte, (2*slots*s.bus+2)*blockSize), blockSize); err != nil {
		s.t.Fatal(err)
	}
	discipline := "shift"
	if s.pull != nil {
		discipline = "pull"
	}
	cfg.Transfers = openTransfers(discipline, readoutunit.DisciplineConfig{
		RU:          ru,
		Seats:       readoutunit.SeatsInOrder(s.rus, s.bus),
		BUs:         s.bus,
		SlotsPerBU:  slots,
		FencePhases: !cfg.UnheldPhases,
		RoundCycles: slots,
		PreGranted:  s.layout != nil,
	})
	unit := readoutunit.New(cfg)
	s.units = append(s.units, unit)
	unit.Start()
}

// network is the route from one rank: what is sent arrives before the call returns.
type network struct {
	sys  *system
	rank int
}

func (n network) Signal(to int, payload []byte) error {
	switch placing.Kind(payload[0]) {
	case placing.KindGrant:
		return n.sys.units[to].HandleGrant(n.rank, payload)
	case placing.KindPreGrants:
		return n.sys.units[to].HandlePreGrants(n.rank, payload)
	case placing.KindWindowRequest:
		return n.sys.builders[to-n.sys.rus].AnswerWindowRequest(n.rank, payload)
	}
	return n.sys.builders[to-n.sys.rus].HandleAnnounce(n.rank, payload)
}

func (n network) WriteMany(to int, pieces []link.Piece, cookie uint64) error {
	bu := to - n.sys.rus
	var ps []transport.Placement
	for _, p := range pieces {
		dst, v := n.sys.tables[bu].Acquire(shmem.Peer(n.rank), p.Ref, 0, uint32(len(p.Data)), shmem.AccessNwrite)
		if v != 0 {
			return fmt.Errorf("rank %d may not write to rank %d: %s", n.rank, to, v)
		}
		copy(dst, p.Data)
		n.sys.tables[bu].Release(p.Ref)
		ps = append(ps, transport.Placement{Ref: p.Ref, Imm: p.Imm, Length: uint32(len(p.Data))})
	}
	n.sys.builders[bu].PlacedMany(n.rank, ps)
	n.sys.units[n.rank].HandleCompletion(to, cookie, nil)
	return nil
}

func (n network) RelocateWrite(int, uint64, func(int) []byte) bool { return false }

// neighbours carries barrier messages.
type neighbours struct {
	sys *system
	ru  int
}

func (n neighbours) Signal(to int, payload []byte) error {
	return n.sys.barriers[to].Deliver(n.ru, payload)
}

// scheduler is TagNet's core behind a mutex, as one readout unit sees it.
type scheduler struct {
	sys *system
	ru  int
}

func (c scheduler) Update(u tagcore.Update) error {
	c.sys.mu.Lock()
	defer c.sys.mu.Unlock()
	if err := c.sys.core.ApplyUpdate(c.ru, u); err != nil {
		return err
	}
	c.sys.pump()
	return nil
}

func (c scheduler) Next(ctx context.Context) (tagnet.Tokens, error) {
	select {
	case t, ok := <-c.sys.tokens[c.ru]:
		if !ok {
			return t, io.EOF
		}
		return t, nil
	case <-ctx.Done():
		return tagnet.Tokens{}, context.Cause(ctx)
	}
}

func (c scheduler) ReportReach(tagcore.Reach) error { return nil }

func (c scheduler) ReportStop(uint64) error { return nil }

func (c scheduler) ReportCleared(uint64) error { return nil }

func (c scheduler) ConfirmExclusion(exclusion uint64) error {
	c.sys.mu.Lock()
	defer c.sys.mu.Unlock()
	return c.sys.core.ConfirmExclusion(c.ru, exclusion)
}

func (s *system) feedback(bu int, r builderunit.MEPResult) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.core.ApplyFeedback(bu, r.Feedback)
	if err == nil {
		s.pump()
	}
	return err
}

// pump issues what can be, and tells all readout units. mu is held.
func (s *system) pump() {
	if s.finished > 0 {
		return
	}
	s.batch.Reset(s.core.NextCycle(), s.core.PlacesPerCycle())
	s.core.Issue(&s.batch)
	if held := s.core.HeldUp(); s.batch.Len() > 0 || s.core.Released() != s.released || !slices.Equal(held, s.held) {
		s.released, s.held = s.core.Released(), slices.Clone(held)
		for _, c := range s.tokens {
			batch := s.batch
			batch.MEPs, batch.Slots = slices.Clone(batch.MEPs), slices.Clone(batch.Slots)
			c <- tagnet.Tokens{
				Batch:    batch,
				Released: s.released,
				HeldUp:   s.held,
				State:    s.core.State(),
			}
		}
	}
	if s.core.State() == tagcore.Drained {
		s.finished = s.core.NextCycle()
		for _, c := range s.tokens {
			close(c)
		}
		close(s.drained)
	}
}

// run starts the scheduler and waits until all MEPs are built and every readout unit knows.
func (s *system) run() {
	s.mu.Lock()
	s.core.Start()
	s.pump()
	s.mu.Unlock()
	limit := time.After(patiently.LongTimeout)
	select { // bounded by limit
	case <-s.drained:
	case err := <-s.failed:
		s.t.Error(err)
	case <-limit:
		s.t.Error("the run does not end")
	}
	round := uint64(max(s.rus, s.bus)) // phases
	for _, u := range s.units {
		for st := u.Stats(); !s.t.Failed() && (st.PhasesPassed%round != 0 || st.RetainedBlocks > 0 ||
			st.OpenTransfers > 0); st = u.Stats() {
			select {
			case err := <-s.failed:
				s.t.Error(err)
			case <-limit:
				s.t.Errorf("a readout unit does not come to the end: %+v", st)
			case <-time.After(100 * time.Microsecond):
			}
		}
	}
	for _, u := range s.units {
		if err := u.Close(); err != nil {
			s.t.Error(err)
		}
	}
	for _, b := range s.builders {
		if err := b.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

// check closes the accounts.
func (s *system) check() {
	t := s.t
	meps := uint64((events + s.packing - 1) / s.packing)
	var read, written uint64
	for i, u := range s.units {
		st := u.Stats()
		if st.MFPsRead != meps*uint64(s.division.SourceCount(i)) || st.TokensReceived != meps || st.PartsWritten != meps ||
			st.OpenTransfers != 0 ||
			st.RefusedGrants != 0 || st.PhasesPassed > s.finished*uint64(max(s.rus, s.bus)) || st.Source.Events != events {
			t.Errorf("readout unit %d: %+v", i, st)
		}
		if s.pull == nil && (st.PhasesPassed == 0 || st.DummyPhases+st.PartsWritten < st.PhasesPassed) {
			t.Errorf("readout unit %d wrote %d parts and was silent %d times in %d phases", i, st.PartsWritten, st.DummyPhases,
				st.PhasesPassed)
		}
		read, written = read+st.Source.Bytes, written+st.BytesWritten
	}
	var built builderunit.Stats
	var sunk sink.Result
	for j, b := range s.builders {
		st := b.Stats()
		if st.IncompleteMEPs != 0 || st.RefusedAnnouncements != 0 || st.RejectedPlacements != 0 || st.RejectedMessages != 0 ||
			st.Slots.Free != slots {
			t.Errorf("builder unit %d: %+v", j, st)
		}
		built.BuiltMEPs, built.PlacedMFPs, built.BuiltBytes = built.BuiltMEPs+st.BuiltMEPs,
			built.PlacedMFPs+st.PlacedMFPs, built.BuiltBytes+st.BuiltBytes
		out, err := s.sinks[j].Finish()
		if err != nil || out.MEPs != st.BuiltMEPs {
			t.Errorf("builder unit %d: its sink has %d MEPs (%v), not %d", j, out.MEPs, err, st.BuiltMEPs)
		}
		sunk.Events += out.Events
		granted := st.BuiltMEPs * uint64(s.rus)
		if s.layout != nil {
			granted = uint64(slots * s.rus)
		}
		if x := s.tables[j].Stats(); x.Live != 0 || x.Granted != x.Revoked || x.Granted != granted {
			t.Errorf("builder unit %d: windows %+v", j, x)
		}
	}
	if built.BuiltMEPs != meps || built.PlacedMFPs != meps*uint64(s.division.Sources()) || built.BuiltBytes != read ||
		sunk.Events != events || written < read {
		t.Errorf("built %+v with %d events; read %d bytes, written %d", built, sunk.Events, read, written)
	}
	if c := s.core.Registers().Counters; c.Built != meps || c.EventsBuilt != events || c.Issued != meps ||
		s.core.Released() != meps {
		t.Errorf("scheduler: %+v", c)
	}
}
