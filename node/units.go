package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"ringlet/barrier"
	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/event/placing"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/readoutunit"
	"ringlet/readoutunit/source"
	"ringlet/tagnet"
)

var errNoSuchUnit = errors.New("this node holds no such unit, or not now")

// ControlName is the name, in its certificate and in the cluster, of the control. Where nobody else is named it runs
// TagNet.
const ControlName = "control"

type attachParams func(name string) (tagnet.Scope, []grpc.DialOption)

func (s *session) startBuilder(ctx context.Context, req *nodev1.CommandRequest, attach attachParams) error {
	if err := s.renewSlots(); err != nil {
		return err
	}
	out, err := s.openOutput(req)
	if err != nil {
		return err
	}
	verify, err := builderunit.ParseVerify(s.cfg.Verify)
	if err != nil {
		return err
	}
	rule, err := s.cfg.Pattern()
	if err != nil {
		return err
	}
	fb := newFeedbackSender()
	fb.onSuperseded, fb.onReported, fb.onRunEnding = s.supersedeHandler(out), s.reportOutcomes, s.liftBacklogLimit
	s.feedback.Store(fb)
	bu, err := builderunit.New(builderunit.Config{
		Slots:          s.slots,
		Table:          s.table,
		Signaler:       tolerantSignaler{s},
		RURanks:        s.ruRanks,
		Division:       s.cfg.Division(),
		Run:            req.GetRun(),
		Verify:         verify,
		Pattern:        rule,
		Sink:           out,
		Tap:            s.node.tap,
		Durable:        s.awaitsDurability(),
		Log:            s.node.log,
		Tolerates:      s.tolerateBadData,
		Fail:           func(err error) { s.reportFault("builder unit", err) },
		OnResults:      fb.report,
		Layout:         s.layout,
		Pull:           s.pullConfig(),
		Decide:         s.regionDecider(out),
		MaxWaitingMEPs: s.cfg.MaxOutputBacklog(),
		Suspension:     s.suspensionConfig(),

		MaxEventsPerMEP: s.cfg.Packing,
	})
	if err != nil {
		return err
	}
	// With the last unit that attaches tokens begin to flow, and announcements come before this node hears of it. So the
	// unit must be in its place first.
	s.bu.Store(bu)
	scope, opts := attach(s.node.cfg.Name)
	err = fb.attach(ctx, func(ctx context.Context) (*tagnet.BUClient, error) {
		return tagnet.DialBU(ctx, req.GetTagnetAddress(), scope, s.cfg.Slots, s.absenceHandler(), opts...)
	}, bu.Reset)
	if err != nil {
		return err
	}
	s.keepConn(fb)
	return nil
}

// regionDecider decides on regions of interest: a filter judges each, or a share of the MEPs is kept. What is kept
// though no filter could look has its rest fetched, and the whole MEP is judged.
func (s *session) regionDecider(out sink.Sink) func(context.Context, *builderunit.Region) error {
	judge, ok := out.(*sink.FilterSink)
	if !ok || !s.cfg.RegionJudged() {
		_, share := s.cfg.RoIReadouts()
		keep := builderunit.AcceptShare(share, s.cfg.Seed)
		return func(_ context.Context, r *builderunit.Region) error {
			r.Decide(keep(r.Meta.MEP))
			return nil
		}
	}
	return func(ctx context.Context, r *builderunit.Region) error {
		mep, ok := r.AssembleMEP()
		if !ok {
			r.Decide(true)
			return nil
		}
		return judge.Judge(ctx, r.Meta, mep, r.Slot, r.Client())
	}
}

// suspensionConfig is when this node's builder unit stops on purpose.
func (s *session) suspensionConfig() builderunit.Suspension {
	bus := s.cfg.SuspendedBUs()
	turn := slices.Index(bus, int(s.self.GetBuIndex()))
	if turn < 0 {
		return builderunit.Suspension{}
	}
	return builderunit.Suspension{
		Interval: s.cfg.Debug.SuspendEvery,
		Duration: s.cfg.Debug.SuspendFor,
		BUIndex:  turn,
		BUCount:  len(bus),
	}
}

func (s *session) startReadout(ctx context.Context, address string, rejoining bool, attach attachParams) error {
	src, err := s.openSource(ctx)
	if err != nil {
		return &subsystemError{subsystemInput, err}
	}
	core, err := barrier.NewCore(s.cfg.BarrierKind(), s.cfg.RUs, int(s.self.GetRuIndex()))
	if err != nil {
		return errors.Join(err, src.Close())
	}
	bar := barrier.New(core, &barrierSignaler{s: s}, barrier.Options{
		Timeout: max(s.cfg.Debug.BarrierTimeout, s.node.cfg.MinBarrierTimeout),
		Slack:   s.cfg.EffectiveSlack(),
	})
	s.barrier.Store(bar)
	scope, opts := attach(s.node.cfg.Name)
	client, err := tagnet.DialRU(ctx, address, scope, s.dropLink, opts...)
	if err != nil {
		return errors.Join(err, src.Close(), bar.Close())
	}
	s.keepConn(client)
	if err := s.resumeSource(ctx, src, client, rejoining); err != nil {
		return errors.Join(err, src.Close(), bar.Close())
	}
	cfg := s.readoutConfig(src, client, bar, rejoining)
	if err := s.allocateRetention(&cfg); err != nil {
		return errors.Join(err, src.Close(), bar.Close())
	}
	unit := readoutunit.New(cfg)
	s.ru.Store(unit) // before it announces anything: the grant may be back at once
	s.replayLostLinks()
	unit.Start()
	return nil
}

// readoutConfig is what the readout unit is made of, but for the memory of its data.
func (s *session) readoutConfig(src source.Source, client *tagnet.RUClient, bar *barrier.Barrier,
	rejoining bool) readoutunit.Config {
	_, length := s.cfg.Phases()
	cfg := readoutunit.Config{
		CoreConfig: readoutunit.CoreConfig{
			RU:            int(s.self.GetRuIndex()),
			RUs:           s.cfg.RUs,
			Transfers:     s.openTransfers(),
			Streams:       s.cfg.Division().SourceCount(int(s.self.GetRuIndex())),
			PhaseTime:     length,
			UnheldPhases:  !s.cfg.Phased(),
			TimelineSteps: keptTimelineSteps,
		},
		BURanks:         s.buRanks,
		Source:          src,
		Network:         s.endpoint,
		Scheduler:       client,
		Barrier:         bar,
		ForwardTag:      s.tagForwarder(client),
		Log:             s.node.log,
		Fail:            func(err error) { s.reportFault("readout unit", err) },
		ToleratesBULoss: s.expendableBuilders(),

		ToleratesReadoutLoss: s.toleratesReadoutLoss(),
	}
	if rejoining {
		cfg.Rejoin = client.RejoinPoint()
	}
	if h := s.decisions.triggerReporter.Load(); h != nil {
		cfg.OnTriggered = func(below uint64) { h.advance(below * uint64(s.cfg.Packing)) }
	}
	if frees, written := s.cfg.FreesRejected(); frees {
		cfg.Rejection = readoutunit.RejectionPolicy{Packing: s.cfg.Packing, IncludesWritten: written}
	}
	return cfg
}

// pullConfig is how this node's builder unit asks for its parts; builder units begin with different readout units.
func (s *session) pullConfig() builderunit.Pull {
	if !s.cfg.DisciplineKind().Pull {
		return builderunit.Pull{}
	}
	roi, _ := s.cfg.RoIReadouts()
	return builderunit.Pull{
		RequestCredit:   s.cfg.Debug.PullWindow,
		SlotsPerRelease: s.cfg.PullGroup(),
		FirstUnit:       int(s.self.GetBuIndex()) % s.cfg.RUs,
		RegionUnits:     roi,
	}
}

// openTransfers makes the table of transfers of this node's readout unit, served by its discipline.
func (s *session) openTransfers() *readoutunit.Transfers {
	end, _ := s.cfg.Phases()
	return s.cfg.DisciplineKind().Open(readoutunit.DisciplineConfig{
		RU:          int(s.self.GetRuIndex()),
		BUs:         s.cfg.BUs,
		SlotsPerBU:  s.cfg.Slots,
		RoundCycles: s.cfg.CyclesPerRound(),
		PreGranted:  s.layout != nil,
		Seats:       s.shiftSeats(),
		FencePhases: s.cfg.Phased() || end != config.PhaseEndBarrier, // a barrier that holds nothing needs no fence before it
	})
}

// tagForwarder passes tags on to the next readout unit, and from the last one back to the scheduler. One goroutine
// at a time calls it. It is nil where no tags pass.
func (s *session) tagForwarder(sched *tagnet.RUClient) func(*tagnet.Tag) error {
	if !s.cfg.DisciplineKind().Tags {
		return nil
	}
	next := int(s.self.GetRuIndex()) + 1
	if next == s.cfg.RUs {
		return sched.ReturnTag
	}
	var words [tagnet.MaxTagWords]uint64
	var message []byte
	return func(t *tagnet.Tag) error {
		message = placing.AppendTag(message[:0], t.AppendWords(words[:0]))
		return s.endpoint.Signal(s.ruRanks[next], message)
	}
}

// shiftSeats are where the units sit in the shift.
func (s *session) shiftSeats() readoutunit.Seats {
	ranks := s.cfg.SeatRanks()
	if ranks == nil {
		return readoutunit.SeatsInOrder(s.cfg.RUs, s.cfg.BUs)
	}
	var seats readoutunit.Seats
	for _, rank := range ranks {
		ru, bu := readoutunit.Dummy, readoutunit.Dummy
		if rank != config.DummySeat {
			m := s.view.GetMembers()[rank]
			if m.GetReadout() {
				ru = int(m.GetRuIndex())
			}
			if m.GetBuilder() {
				bu = int(m.GetBuIndex())
			}
		}
		seats.RUs, seats.BUs = append(seats.RUs, ru), append(seats.BUs, bu)
	}
	return seats
}

// allocateRetention makes room for the blocks under way. It lies outside the garbage collector's heap, whose size
// decides how often it collects. The links may repeat a write until they are closed, so it is abort that gives the
// memory back.
func (s *session) allocateRetention(cfg *readoutunit.Config) error {
	block, blocks := s.cfg.RetentionBuffers(cfg.RU, cfg.Source.MaxBlock())
	arena, err := s.allocateArena(blocks * block)
	if err != nil {
		return fmt.Errorf("no memory for %d blocks of %d bytes in the readout unit: %w", blocks, block, err)
	}
	cfg.Retention, err = readoutunit.NewRetention(arena, block)
	return err
}

// allocateArena is memory of that size: that of the run before, if there was one and it is as large, which nothing is
// under way from.
func (s *session) allocateArena(size int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.arenas); n > 0 && len(s.arenas[n-1]) == size {
		return s.arenas[n-1], nil
	}
	arena, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		s.arenas = append(s.arenas, arena)
	}
	return arena, err
}

// openSource opens what the readout unit reads.
func (s *session) openSource(ctx context.Context) (source.Source, error) {
	settings, err := s.cfg.SourceSettings(int(s.self.GetRuIndex()))
	if err != nil {
		return nil, err
	}
	settings.Live.Log, settings.Live.Run = s.node.log, uint64(s.runNumber())
	kind, _ := s.cfg.Source()
	src, err := kind.Open(ctx, settings)
	if err != nil {
		return nil, err
	}
	return source.PaceSource(src, s.cfg.Rate, s.cfg.Packing), nil
}
