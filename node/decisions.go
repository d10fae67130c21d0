package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/event/placing"
	"ringlet/filter"
	"ringlet/filter/decision"
	"ringlet/node/config"
	"ringlet/shmem"
	"ringlet/transport/link"
)

// What follows is a node's part in decisions (docs/design/054-decisions.md):
//
//	readout unit ── tokens came ────▶ trigger reporter ── Triggered ──▶ ┐
//	builder unit ── outcomes ───────▶ sender ══ results ══════════════▶ decision unit ──▶ outlets, in order
//	                                         ◀── Open, Credit ───────── ┤
//	readout unit ◀─ rejected events ─ decision receiver ◀── Decided ─── ┘
//
// The decision unit is on one node of the view. Nobody waits for it.

// decisionRole is that part. The zero value, with rank None, has none.
type decisionRole struct {
	nodeRank int            // of the node with the decision unit, or config.NoUnit; immutable
	segment  *shmem.Segment // of its result rings; nil elsewhere. Immutable after newSession

	outletStats decision.OutletStats

	// set by start, read by the links' receivers
	unit            atomic.Pointer[decision.Unit]
	sender          atomic.Pointer[decision.Sender]
	triggerReporter atomic.Pointer[triggerReporter]
	receiver        atomic.Pointer[decisionReceiver]

	mu            sync.Mutex       // guards what follows
	openMessage   decision.Message // what the decision unit said first; Kind 0: nothing yet
	outletClosers []closer         // of the decision unit; closed at its end
}

type closer interface{ Close() error }

// resultCookie tells writes of results from those of the readout unit, whose cookies are small.
const resultCookie = 1 << 63

// memberNames are those of the view, by rank.
func (s *session) memberNames() (names []string) {
	for _, m := range s.view.GetMembers() {
		names = append(names, m.GetName())
	}
	return names
}

// hasDecisionUnit says that this node has the decision unit.
func (s *session) hasDecisionUnit() bool { return s.decisions.nodeRank == int(s.self.GetRank()) }

// needsLink says whether this node and another have something to tell each other: builder units do not speak with each
// other, and everybody with units does with the decision unit.
func (s *session) needsLink(rank int) bool {
	m := s.view.GetMembers()[rank]
	return rank != int(s.self.GetRank()) &&
		(s.self.GetReadout() || m.GetReadout() || s.hasDecisionUnit() || rank == s.decisions.nodeRank)
}

// makeDecisionSegment makes the memory of the decision unit, if it is here.
func (s *session) makeDecisionSegment() (err error) {
	if s.hasDecisionUnit() {
		size := decision.SegmentSize(len(s.buRanks), decision.RingCapacityFor(s.cfg.Packing))
		s.decisions.segment, err = shmem.Create(s.segmentPrefix+"-decisions", size)
	}
	return err
}

// decisionWindows is how many windows the decision unit here grants.
func (s *session) decisionWindows() int {
	if s.hasDecisionUnit() {
		return len(s.buRanks)
	}
	return 0
}

// startDecisions makes the decision unit, if it is here, and what speaks with it. It comes before the units, so that no
// event is triggered before the decision unit is there.
func (s *session) startDecisions(rejoining bool) error {
	d := &s.decisions
	if d.nodeRank == config.NoUnit {
		return nil
	}
	if s.self.GetBuilder() {
		d.sender.Store(decision.NewSender(int(s.self.GetBuIndex()), s.writeResults))
	}
	if s.self.GetReadout() {
		d.receiver.Store(&decisionReceiver{})
		d.triggerReporter.Store(startTriggerReporter(func(epoch uint8, below uint64) {
			s.sendDecisionMessage(decision.Message{Kind: decision.KindTriggered, Epoch: epoch, Number: below})
		}))
	}
	d.mu.Lock()
	open := d.openMessage
	d.mu.Unlock()
	if open.Kind != 0 {
		_ = s.dispatchDecision(open)
	}
	if !s.hasDecisionUnit() {
		if rejoining { // the decision unit has greeted the process that was here before
			s.sendDecisionMessage(decision.Message{Kind: decision.KindRequestOpen})
		}
		return nil
	}
	outlets, err := s.openOutlets()
	if err != nil {
		return &subsystemError{subsystemDecision, err}
	}
	unit, err := decision.NewUnit(decision.UnitConfig{
		Core: decision.Config{
			MaxPending: s.cfg.MaxPendingDecisions(),
			Timeout:    s.cfg.EffectiveDecisionTimeout(),
			Epoch:      uint8(rand.Uint32()),
		},
		RingCapacity: decision.RingCapacityFor(s.cfg.Packing),
		BuilderRanks: s.buRanks,
		ReadoutRanks: s.ruRanks,
		Table:        s.table,
		Segment:      d.segment,
		Signaler:     decisionSignaler{s},
		Outlets:      outlets,
		Rejoining:    rejoining,
		Log:          s.node.log,
	})
	if err != nil {
		return &subsystemError{subsystemDecision, errors.Join(err, s.closeOutlets())}
	}
	d.unit.Store(unit)
	for rank, m := range s.view.GetMembers() {
		if m.GetReadout() || m.GetBuilder() {
			unit.Announce(rank)
		}
	}
	return nil
}

// decisionSignaler signals for the decision unit. A node that does not answer is lost to somebody else.
type decisionSignaler struct{ s *session }

func (g decisionSignaler) Signal(rank int, message []byte) error {
	b := make([]byte, 0, 1+decision.MessageSize)
	err := g.s.endpoint.Signal(rank, append(append(b, byte(placing.KindDecision)), message...))
	if err != nil && slices.Contains(g.s.lostRanks(), rank) {
		return nil
	}
	return err
}

// openOutlets opens what hands decisions out.
func (s *session) openOutlets() (outlets []decision.Outlet, err error) {
	d := &s.decisions
	for _, a := range s.cfg.DecisionOutlets() {
		var one interface {
			decision.Outlet
			closer
		}
		if a.Kind == decision.OutletBuffer {
			one, err = decision.OpenBuffer("ringlet-"+a.Location, &d.outletStats, s.node.log)
		} else {
			one, err = decision.Listen(a.Location, &d.outletStats, s.node.log)
		}
		if err != nil {
			return nil, errors.Join(err, s.closeOutlets())
		}
		d.mu.Lock()
		d.outletClosers = append(d.outletClosers, one)
		d.mu.Unlock()
		outlets = append(outlets, one)
	}
	return outlets, nil
}

func (s *session) closeOutlets() (err error) {
	d := &s.decisions
	d.mu.Lock()
	outlets := d.outletClosers
	d.outletClosers = nil
	d.mu.Unlock()
	for _, o := range outlets {
		err = errors.Join(err, o.Close())
	}
	return err
}

// receiveDecisionSignal takes a message between a decision unit and the others.
func (s *session) receiveDecisionSignal(rank int, b []byte) error {
	d := &s.decisions
	if decision.KindOf(b) == decision.KindDecisions {
		return s.receiveDecisions(rank, b)
	}
	var m decision.Message
	if err := m.Parse(b); err != nil {
		return err
	}
	switch m.Kind {
	case decision.KindTriggered, decision.KindRequestOpen, decision.KindEnd, decision.KindAck:
		unit := d.unit.Load()
		if unit == nil {
			return errNoSuchUnit
		}
		return unit.HandleMessage(rank, b)
	}
	if rank != d.nodeRank {
		return errOtherDecisionNode
	}
	if m.Kind == decision.KindOpen {
		d.mu.Lock()
		d.openMessage = m
		d.mu.Unlock()
	}
	return s.dispatchDecision(m)
}

// dispatchDecision tells the sender, the trigger reporter and the decision receiver what the decision unit says.
func (s *session) dispatchDecision(m decision.Message) error {
	if h := s.decisions.receiver.Load(); h != nil && m.Kind == decision.KindOpen {
		h.connect(m.Epoch)
	}
	if h := s.decisions.triggerReporter.Load(); h != nil && m.Kind == decision.KindOpen {
		h.connect(m.Epoch)
	}
	if sender := s.decisions.sender.Load(); sender != nil && (m.Kind != decision.KindOpen || m.RingCapacity > 0) {
		return sender.HandleMessage(m)
	}
	return nil
}

// sendDecisionMessage tells the decision unit something. A link that is down is told of otherwise.
func (s *session) sendDecisionMessage(m decision.Message) {
	b := append(make([]byte, 0, 1+decision.MessageSize), byte(placing.KindDecision))
	_ = s.endpoint.Signal(s.decisions.nodeRank, m.Append(b))
}

// writeResults writes results into the result ring of this node's builder unit.
func (s *session) writeResults(w decision.Write) error {
	return s.endpoint.Write(s.decisions.nodeRank, link.Write{
		Ref:    w.Ref,
		Offset: w.Offset,
		Data:   w.Data,
		Cookie: w.Cookie | resultCookie,
	})
}

// reportFiltered tells the decision unit what a filter said of n events of a MEP, from the place i on; and with the
// last of them, that a short MEP has no more.
func (s *session) reportFiltered(m sink.Meta, i, n int, v filter.Verdict, took time.Duration) {
	sender := s.decisions.sender.Load()
	if sender == nil {
		return
	}
	packing := s.cfg.Packing
	first := m.MEP * uint64(packing)
	sender.AddVerdict(first+uint64(i), n, v, took)
	if n += i; n == m.Events && n < packing {
		sender.AddVerdict(first+uint64(n), packing-n, filter.Verdict{Decision: decision.Void}, 0)
	}
}

// reportOutcomes tells the decision unit what became of MEPs. Of what a filter judged, whole or by its region,
// reportFiltered has told. Without one each event is accepted, or could not be judged, since it lacks fragments; so
// could those not be that were let go. Events are numbered by their MEP, and those that a short MEP does not have are
// void. Of what is incomplete nothing is told: it times out.
func (s *session) reportOutcomes(results []builderunit.MEPResult) {
	sender := s.decisions.sender.Load()
	if sender == nil {
		return
	}
	packing := s.cfg.Packing
	now := time.Now()
	for i := range results {
		r := &results[i]
		v := filter.Verdict{Decision: filter.Accepted}
		switch {
		case r.Outcome == builderunit.Incomplete, r.Outcome == builderunit.Built && s.cfg.Filter != "",
			r.Outcome == builderunit.Rejected && s.cfg.RegionJudged():
			continue
		case r.Outcome == builderunit.Rejected:
			v.Decision = filter.Rejected
		case r.Outcome == builderunit.Discarded || r.PartsMissing:
			v.Decision = filter.Failed
		}
		n := min(r.Events, packing)
		if n == 0 {
			n = packing // nobody has looked
		}
		first := r.MEP * uint64(packing)
		sender.AddVerdict(first, n, v, now.Sub(r.CompletedAt))
		if n < packing {
			sender.AddVerdict(first+uint64(n), packing-n, filter.Verdict{Decision: decision.Void}, 0)
		}
	}
}

// onDecisionNodeLost takes that the link to the node with the decision unit is down.
func (s *session) onDecisionNodeLost() {
	d := &s.decisions
	d.mu.Lock()
	d.openMessage = decision.Message{}
	d.mu.Unlock()
	if h := d.triggerReporter.Load(); h != nil {
		h.disconnect()
	}
	if h := d.receiver.Load(); h != nil {
		h.disconnect()
	}
	if sender := d.sender.Load(); sender != nil {
		sender.UnitLost()
	}
}

// How long the end of a run waits for results to arrive, and for nodes that have not told all yet and for decisions,
// beyond their time-out. A builder unit tells its last results when its output has the events.
const (
	resultFlushTimeout = time.Second
	decisionEndTimeout = 10 * time.Second
)

// endDecisions ends this node's part in decisions. ctx is over where nothing is waited for.
func (s *session) endDecisions(ctx context.Context) {
	d := &s.decisions
	if h := d.triggerReporter.Swap(nil); h != nil {
		h.close()
	}
	over := decision.Message{Kind: decision.KindEnd}
	if sender := d.sender.Load(); sender != nil {
		within, cancel := context.WithTimeout(ctx, resultFlushTimeout)
		if err := sender.Flush(within); err != nil && ctx.Err() == nil {
			s.node.log.Warn("the run ends without decisions on what this builder unit has built last", "err", err)
		}
		cancel()
		over.Number = sender.Close()
	}
	if h := d.receiver.Load(); h != nil {
		h.disconnect() // so that what it has heard is answered, and nothing more, before this node says that it has ended
	}
	d.mu.Lock()
	there := d.openMessage.Kind != 0
	over.Epoch, d.openMessage = d.openMessage.Epoch, decision.Message{}
	d.mu.Unlock()
	if there && (s.self.GetReadout() || s.self.GetBuilder()) {
		s.sendDecisionMessage(over)
	}
	if unit := d.unit.Load(); unit != nil {
		within, cancel := context.WithTimeout(ctx, s.cfg.EffectiveDecisionTimeout()+decisionEndTimeout)
		unit.FinishDecisions(within)
		cancel()
	}
	if err := s.closeOutlets(); err != nil {
		s.node.log.Error("an outlet of decisions was not closed", "err", err)
	}
}

// canceledContext is a context in which nothing is waited for.
func canceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// closeDecisionUnit takes the result rings of the decision unit back. The units have ended.
func (s *session) closeDecisionUnit() {
	if unit := s.decisions.unit.Swap(nil); unit != nil {
		if err := unit.Close(); err != nil {
			s.node.log.Error("the result windows of the decision unit were not given back", "err", err)
		}
	}
}
