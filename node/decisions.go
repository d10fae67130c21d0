package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/event/placing"
	"ringlet/filter"
	"ringlet/filter/decision"
	"ringlet/tagnet/core"
	"ringlet/transport/link"
)

// How a node with units takes part in decisions (docs/design/054-decisions.md):
//
//	readout unit ── tokens came ────▶ trigger reporter ── Triggered ──▶ ┐
//	builder unit ── outcomes ───────▶ sender ══ results ══════════════▶ decision unit ──▶ outlets, in order
//	                                         ◀── Open, Credit ───────── ┤
//	readout unit ◀─ rejected events ─ decision receiver ◀── Decided ─── ┘
//
// The decision unit is on one node of the view. No unit waits for it.

// decisions is this part of a node as a component. It starts before the units, and ends after them.
type decisions struct {
	*base
	rejected func(first, events uint64) // called with ranges of rejected events, for the readout unit here

	// set by start, read by the links' receivers
	sender   atomic.Pointer[decision.Sender] // of the builder unit here
	reporter atomic.Pointer[triggerReporter] // of the readout unit here

	mu   sync.Mutex       // guards the fields below
	open decision.Message // first message of the decision unit; Kind 0: none yet

	reading sync.Mutex       // guards the fields below; held while the decision unit is answered, which never waits
	reader  *decision.Reader // of the readout unit here; nil: there is none, or no run yet
}

// resultCookie marks writes of results; the readout unit's writes have small cookies.
const resultCookie = 1 << 63

var errOtherDecisionNode = fmt.Errorf("%w: the decision unit is on another node", decision.ErrMessage)

// newDecisions adds the handlers, of which the one for outcomes of writes must be the first.
func newDecisions(b *base, h *handlers) *decisions {
	c := &decisions{base: b}
	h.onSignal(placing.KindDecision, c.receive)
	h.completed = append(h.completed, func(_ int, cookie uint64, err error) bool {
		if sender := c.sender.Load(); cookie&resultCookie != 0 && sender != nil {
			sender.WriteCompleted(cookie&^resultCookie, err)
		}
		return cookie&resultCookie != 0
	})
	return c
}

func (c *decisions) start(_ context.Context, run *runStart) error {
	if c.self.GetBuilder() {
		c.sender.Store(decision.NewSender(int(c.self.GetBuIndex()), c.writeResults))
	}
	if c.self.GetReadout() {
		c.reading.Lock()
		c.reader = &decision.Reader{}
		c.reading.Unlock()
		c.reporter.Store(startTriggerReporter(func(epoch uint8, below uint64) {
			c.send(decision.Message{Kind: decision.KindTriggered, Epoch: epoch, Number: below})
		}))
	}
	c.mu.Lock()
	open := c.open
	c.mu.Unlock()
	if open.Kind != 0 {
		_ = c.dispatch(open)
	}
	if run.GetBack() && !c.hasDecisionUnit() { // the decision unit has greeted the former process
		c.send(decision.Message{Kind: decision.KindRequestOpen})
	}
	return nil
}

// receive handles a message of the decision unit. The readout unit may not exist yet: one that rejoins gets decisions
// from its own greeting on.
func (c *decisions) receive(rank int, payload []byte) error {
	b := payload[1:]
	kind := decision.KindOf(b)
	if isForDecisionUnit(kind) {
		return errNoSuchUnit
	}
	var m decision.Message
	if kind != decision.KindDecisions {
		if err := m.Parse(b); err != nil {
			return err
		}
	}
	switch {
	case rank != c.decisionRank:
		return errOtherDecisionNode
	case kind == decision.KindDecisions:
		return c.receiveDecisions(b)
	case m.Kind == decision.KindOpen:
		c.mu.Lock()
		c.open = m
		c.mu.Unlock()
	}
	return c.dispatch(m)
}

// receiveDecisions handles decisions, and answers.
func (c *decisions) receiveDecisions(b []byte) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.reader == nil {
		return errNoSuchUnit
	}
	answer, ok, err := c.reader.Receive(b, func(first uint64, s decision.Span) {
		if s.Decision == filter.Rejected {
			c.rejected(first, s.Events)
		}
	})
	if ok {
		c.send(answer)
	}
	return err
}

// dispatch passes a message of the decision unit to the sender, the trigger reporter and the reader.
func (c *decisions) dispatch(m decision.Message) error {
	if m.Kind == decision.KindOpen {
		c.reading.Lock()
		if c.reader != nil {
			c.reader.Open(m.Epoch)
		}
		c.reading.Unlock()
		if h := c.reporter.Load(); h != nil {
			h.connect(m.Epoch)
		}
	}
	if sender := c.sender.Load(); sender != nil && (m.Kind != decision.KindOpen || m.RingCapacity > 0) {
		return sender.HandleMessage(m)
	}
	return nil
}

// send sends a message to the decision unit. If the link is down, the link itself reports that.
func (c *decisions) send(m decision.Message) {
	b := append(make([]byte, 0, 1+decision.MessageSize), byte(placing.KindDecision))
	_ = c.endpoint.Signal(c.decisionRank, m.Append(b))
}

// writeResults writes results into the result ring of this node's builder unit.
func (c *decisions) writeResults(w decision.Write) error {
	return c.endpoint.Write(c.decisionRank, link.Write{
		Ref:    w.Ref,
		Offset: w.Offset,
		Data:   w.Data,
		Cookie: w.Cookie | resultCookie,
	})
}

// reportTriggered reports to the decision unit that all events below a number are triggered.
func (c *decisions) reportTriggered(below uint64) {
	if h := c.reporter.Load(); h != nil {
		h.advance(below)
	}
}

// reportFiltered reports a filter's verdict on n events of a MEP, from place i on, to the decision unit; with the last
// events of a short MEP also that the MEP has no more.
func (c *decisions) reportFiltered(m sink.Meta, i, n int, v filter.Verdict, took time.Duration) {
	if sender := c.sender.Load(); sender != nil {
		c.addVerdict(sender, m.MEP, [3]int{i, n, m.Events}, v, took)
	}
}

// addVerdict adds the verdict on some events of a MEP; which has the place of the first, their number, and the number
// of all events in the MEP.
func (c *decisions) addVerdict(to *decision.Sender, mep uint64, which [3]int, v filter.Verdict, took time.Duration) {
	i, n, events, packing := which[0], which[1], which[2], c.cfg.Packing
	first := mep * uint64(packing)
	to.AddVerdict(first+uint64(i), n, v, took)
	if n += i; n == events && n < packing {
		to.AddVerdict(first+uint64(n), packing-n, filter.Verdict{Decision: decision.Void}, 0)
	}
}

// reportOutcomes reports the outcomes of MEPs to the decision unit. reportFiltered has reported events that a filter
// judged, in a whole MEP or its region. Without a filter each event is accepted, or failed if it lacks fragments; the
// events of discarded MEPs are failed, too. Events are numbered by their MEP; the numbers that a short MEP does not use
// are void.
func (c *decisions) reportOutcomes(results []builderunit.MEPResult) {
	sender := c.sender.Load()
	if sender == nil {
		return
	}
	now := time.Now()
	for i := range results {
		r := &results[i]
		v := filter.Verdict{Decision: filter.Accepted}
		switch {
		case r.Outcome == core.Built && c.cfg.Filter != "", r.Outcome == core.Rejected && c.cfg.RegionJudged():
			continue
		case r.Outcome == core.Rejected:
			v.Decision = filter.Rejected
		case r.Outcome == core.Discarded || r.PartsMissing:
			v.Decision = filter.Failed
		}
		n := min(int(r.Events), c.cfg.Packing)
		if n == 0 {
			n = c.cfg.Packing // no unit has counted the events
		}
		c.addVerdict(sender, r.MEP, [3]int{0, n, n}, v, now.Sub(r.CompletedAt))
	}
}

// disconnect handles that the decision unit is gone, or that this node ends its part in the run: later messages of the
// decision unit are ignored and not answered. Its earlier decisions stand, since they follow the verdict of a builder
// unit.
func (c *decisions) disconnect() {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.reader != nil {
		c.reader.Close()
	}
}

// linkLost handles that the link to a rank is down, if that is the node with the decision unit.
func (c *decisions) linkLost(rank int) {
	if rank != c.decisionRank {
		return
	}
	c.mu.Lock()
	c.open = decision.Message{}
	c.mu.Unlock()
	if h := c.reporter.Load(); h != nil {
		h.disconnect()
	}
	c.disconnect()
	if sender := c.sender.Load(); sender != nil {
		sender.UnitLost()
	}
}

// resultFlushTimeout is how long the end of a run waits for results to arrive. A builder unit reports its last results
// only when its output has the events.
const resultFlushTimeout = time.Second

func (c *decisions) stop(ctx context.Context, _ bool) error {
	if h := c.reporter.Swap(nil); h != nil {
		h.close()
	}
	over := decision.Message{Kind: decision.KindEnd}
	if sender := c.sender.Load(); sender != nil {
		within, cancel := context.WithTimeout(ctx, resultFlushTimeout)
		if err := sender.Flush(within); err != nil && ctx.Err() == nil {
			c.node.log.Warn("the run ends without decisions on the last events of this builder unit", "err", err)
		}
		cancel()
		over.Number = sender.Close()
	}
	c.disconnect() // so that this node answers all earlier messages, and no later ones, before it says that it has ended
	c.mu.Lock()
	there := c.open.Kind != 0
	over.Epoch, c.open = c.open.Epoch, decision.Message{}
	c.mu.Unlock()
	if there {
		c.send(over)
	}
	return nil
}

func (*decisions) free() {}

func (*decisions) attachment() attachment { return unattached }

func (c *decisions) report(f *figures) {
	c.reading.Lock()
	if c.reader != nil {
		f.DecisionReader = new(c.reader.Stats())
	}
	c.reading.Unlock()
	if sender := c.sender.Load(); sender != nil {
		f.Results = new(sender.Stats())
	}
}
