package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event/placing"
	"ringlet/filter/decision"
	"ringlet/shmem"
	"ringlet/transport"
)

// decisionUnit is the decision unit as a component, with the outlets for its decisions.
type decisionUnit struct {
	*base
	segment     *shmem.Segment // of its result rings
	outletStats decision.OutletStats

	unit atomic.Pointer[decision.Unit] // of the last run, until the next begins

	mu      sync.Mutex // guards the fields below
	outlets []outlet   // of this run
}

type outlet interface {
	decision.Outlet
	Close() error
}

// newDecisionUnit makes the memory of the decision unit.
func newDecisionUnit(b *base, h *handlers) (*decisionUnit, error) {
	c := &decisionUnit{base: b}
	size := decision.SegmentSize(len(b.buRanks), decision.RingCapacityFor(b.cfg.Packing))
	var err error
	if c.segment, err = shmem.Create(b.segmentPrefix+"-decisions", size); err != nil {
		return nil, err
	}
	h.onSignal(placing.KindDecision, forUnit(&c.unit, func(u *decision.Unit, peer int, payload []byte) error {
		if !isForDecisionUnit(decision.KindOf(payload[1:])) {
			return errNoSuchUnit
		}
		return u.HandleMessage(peer, payload[1:])
	}))
	h.placed = append(h.placed, func(peer int, p transport.Placement) bool {
		unit := c.unit.Load()
		if unit == nil || !unit.IsRingOf(peer, p.Ref) {
			return false
		}
		unit.ResultsPlaced(peer, p.Ref, p.Offset, p.Length)
		return true
	})
	return c, nil
}

// isForDecisionUnit tells that a kind of message is for the decision unit, and not from it.
func isForDecisionUnit(kind decision.MessageKind) bool {
	switch kind {
	case decision.KindTriggered, decision.KindRequestOpen, decision.KindEnd, decision.KindAck:
		return true
	}
	return false
}

func (c *decisionUnit) start(_ context.Context, run *runStart) error {
	c.closeUnit()
	outlets, err := c.openOutlets()
	if err != nil {
		return &subsystemError{subsystemDecision, err}
	}
	unit, err := decision.NewUnit(decision.UnitConfig{
		Core: decision.Config{
			MaxPending: c.cfg.MaxPendingDecisions(),
			Timeout:    c.cfg.EffectiveDecisionTimeout(),
			Epoch:      uint8(rand.Uint32()),
		},
		RingCapacity: decision.RingCapacityFor(c.cfg.Packing),
		BuilderRanks: c.buRanks,
		ReadoutRanks: c.ruRanks,
		Table:        c.table,
		Segment:      c.segment,
		Signaler:     signaler{base: c.base, kind: placing.KindDecision, goesOn: c.losses.isLost},
		Outlets:      outlets,
		Rejoining:    run.GetBack(),
		Log:          c.node.log,
	})
	if err != nil {
		return &subsystemError{subsystemDecision, errors.Join(err, c.closeOutlets())}
	}
	c.unit.Store(unit)
	for rank, m := range c.view.GetMembers() {
		if m.GetReadout() || m.GetBuilder() {
			unit.Announce(rank)
		}
	}
	return nil
}

// openOutlets opens the outlets for decisions.
func (c *decisionUnit) openOutlets() (all []decision.Outlet, err error) {
	for _, a := range c.cfg.DecisionOutlets() {
		var one outlet
		if a.Kind == decision.OutletBuffer {
			one, err = decision.OpenBuffer("ringlet-"+a.Location, &c.outletStats, c.node.log)
		} else {
			one, err = decision.Listen(a.Location, &c.outletStats, c.node.log)
		}
		if err != nil {
			return nil, errors.Join(err, c.closeOutlets())
		}
		c.mu.Lock()
		c.outlets = append(c.outlets, one)
		c.mu.Unlock()
		all = append(all, one)
	}
	return all, nil
}

func (c *decisionUnit) closeOutlets() (err error) {
	c.mu.Lock()
	outlets := c.outlets
	c.outlets = nil
	c.mu.Unlock()
	for _, o := range outlets {
		err = errors.Join(err, o.Close())
	}
	return err
}

// decisionEndTimeout is how long the end of a run waits for the last messages of nodes, and for decisions, beyond the
// time-out of a decision.
const decisionEndTimeout = 10 * time.Second

func (c *decisionUnit) stop(ctx context.Context, _ bool) error {
	if unit := c.unit.Load(); unit != nil {
		within, cancel := context.WithTimeout(ctx, c.cfg.EffectiveDecisionTimeout()+decisionEndTimeout)
		unit.FinishDecisions(within)
		cancel()
	}
	if err := c.closeOutlets(); err != nil {
		c.node.log.Error("an outlet of decisions was not closed", "err", err)
	}
	return nil
}

// closeUnit revokes the result rings of the last run.
func (c *decisionUnit) closeUnit() {
	if unit := c.unit.Swap(nil); unit != nil {
		if err := unit.Close(); err != nil {
			c.node.log.Error("the result windows of the decision unit were not given back", "err", err)
		}
	}
}

func (c *decisionUnit) free() {
	c.closeUnit()
	if err := c.segment.Close(); err != nil {
		c.node.log.Error("the memory of the decision unit could not be removed", "err", err)
	}
}

func (*decisionUnit) attachment() attachment { return unattached }

func (c *decisionUnit) linkLost(rank int) {
	if unit := c.unit.Load(); unit != nil {
		unit.RankLost(rank)
	}
}

func (c *decisionUnit) report(f *figures) {
	unit := c.unit.Load()
	if unit == nil {
		return
	}
	f.DecisionUnit, f.Outlets = new(unit.Stats()), &c.outletStats
	if f.message == nil {
		return
	}
	l := unit.Latency()
	f.histogram(HistogramDecision, l.Total)
	f.histogram(HistogramBuilding, l.Building)
	f.histogram(HistogramJudged, l.Judging)
	f.histogram(HistogramOrdering, l.Ordering)
}
