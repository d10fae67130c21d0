package node

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/event/placing"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// builder is a builder unit as a component.
type builder struct {
	*base
	bu  int // its index
	out *output
	// onReported is called with results that the scheduler has; nil: ignored.
	onReported func([]builderunit.MEPResult)

	unit     atomic.Pointer[builderunit.Builder] // of the last run
	feedback atomic.Pointer[feedbackSender]      // of the last run
	conn     atomic.Pointer[feedbackSender]      // the same as feedback, while it is attached
	run      atomic.Pointer[runStart]            // the last run

	mu           sync.Mutex // guards the fields below
	absencesSeen int        // in this run
	rejoining    bool       // this process came into a run that went on: its first absences are from before
}

func newBuilder(b *base, h *handlers, out *output) *builder {
	c := &builder{base: b, bu: out.bu, out: out}
	h.onSignal(placing.KindAnnounce, forUnit(&c.unit, (*builderunit.Builder).HandleAnnounce))
	h.onSignal(placing.KindWindowRequest, forUnit(&c.unit, (*builderunit.Builder).AnswerWindowRequest))
	h.onSignal(placing.KindQuiesced, forUnit(&c.unit, (*builderunit.Builder).RecordQuiesced))
	h.placed = append(h.placed, whileThere(&c.unit, (*builderunit.Builder).Placed))
	h.placedMany = append(h.placedMany, whileThere(&c.unit, (*builderunit.Builder).PlacedMany))
	return c
}

func (c *builder) start(ctx context.Context, run *runStart) error {
	c.mu.Lock()
	c.absencesSeen, c.rejoining = 0, run.GetBack()
	c.mu.Unlock()
	verify, err := builderunit.ParseVerify(c.cfg.Verify)
	if err != nil {
		return err
	}
	rule, err := c.cfg.Pattern()
	if err != nil {
		return err
	}
	fb := newFeedbackSender(c.out.markSuperseded, c.onReported, c.out.liftBacklogLimit, c.cfg.Timeouts().Confirm)
	fb.onExcluded = c.noteLostLinks
	c.feedback.Store(fb)
	out := c.out.current()
	unit, err := builderunit.New(builderunit.Config{
		Slots:          c.out.slots,
		Table:          c.table,
		Signaler:       signaler{base: c.base, goesOn: c.isExpendableReadout},
		RURanks:        c.ruRanks,
		Division:       c.cfg.Division(),
		Run:            run.GetRun(),
		Verify:         verify,
		Pattern:        rule,
		Sink:           out,
		Tap:            c.node.tap,
		Durable:        c.out.awaitsDurability(),
		Log:            c.node.log,
		Tolerates:      c.tolerateBadData,
		Fail:           func(err error) { c.reportFault("builder unit", err) },
		OnResults:      fb.report,
		Layout:         c.layout,
		Pull:           c.pullOf(c.bu),
		Decide:         c.regionDecider(out),
		MaxWaitingMEPs: c.cfg.MaxOutputBacklog(),
		Suspension:     c.suspensionOf(c.bu),

		MaxEventsPerMEP: c.cfg.Packing,
	})
	if err != nil {
		return err
	}
	// Tokens begin to flow when the last unit attaches, and announcements may come before this node learns of that. So the
	// unit must be in place before it attaches.
	c.unit.Store(unit)
	err = fb.attach(ctx, c.dialer(run, unit), unit.Reset)
	c.run.Store(run)
	if err == nil {
		c.conn.Store(fb)
	}
	return err
}

// dialer makes the function that attaches the unit to the scheduler.
func (c *builder) dialer(run *runStart, unit *builderunit.Builder) func(context.Context) (*tagnet.BUClient, error) {
	outcomes := tagnet.NewOutcomeLog(c.cfg.UnreleasedMEPs(), c.cfg.Slots)
	excluded := false // after the first time
	return func(ctx context.Context) (*tagnet.BUClient, error) {
		defer func() { excluded = true }()
		address, scope, opts := run.attach()
		client, err := tagnet.DialBU(ctx, address, scope, c.cfg.Slots, tagnet.BUHandlers{
			OnAbsences: c.absenceHandler(excluded), OnValid: unit.KeepValid, Outcomes: outcomes}, opts...)
		if err == nil {
			run.setResumeTimeout(client, &c.cfg)
		}
		return client, err
	}
}

// regionDecider decides on regions of interest: a filter judges each region, or a share of the MEPs is kept. A MEP that
// is kept because the filter could not judge its region is judged when it is complete.
func (c *builder) regionDecider(out sink.Sink) func(context.Context, *builderunit.Region) error {
	judge, ok := out.(*sink.FilterSink)
	if !ok || !c.cfg.RegionJudged() {
		_, share := c.cfg.RoIReadouts()
		keep := builderunit.AcceptShare(share, c.cfg.Seed)
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

// absenceHandler applies the absences of readout units that a session with the scheduler brings, from the first absence
// of the run on. Those that the first message brings to a unit which comes into the run, or was excluded from it, are
// history: of each readout unit the last one counts, and its process is the present one.
func (c *builder) absenceHandler(excluded bool) func([]core.Absence) {
	seen := 0
	return func(all []core.Absence) {
		c.mu.Lock()
		isHistory := seen == 0 && (excluded || c.rejoining && c.absencesSeen == 0)
		applied := min(max(0, c.absencesSeen-seen), len(all)) // by an earlier session
		seen += len(all)
		c.absencesSeen = max(c.absencesSeen, seen)
		c.mu.Unlock()
		all = all[applied:]
		for i, a := range all {
			isLast := !slices.ContainsFunc(all[i+1:], func(later core.Absence) bool { return later.RU == a.RU })
			if !isLast && isHistory {
				c.losses.note(a, c.node.readoutName(int(a.RU)))
				continue // else the process that is back would lose its windows
			}
			if err := c.applyAbsence(a, isLast); err != nil {
				c.reportFault("builder unit", err)
			}
		}
	}
}

// applyAbsence applies one absence. A unit that comes into a run learns all absences before: of a readout unit whose
// last one this is not, the link is that of the process which is back.
func (c *builder) applyAbsence(a core.Absence, isLast bool) error {
	ru := int(a.RU)
	c.losses.note(a, c.node.readoutName(ru))
	if a.Rejoined {
		c.losses.setUnitOver(c.ruRanks[ru], core.Readout, false)
		return c.unit.Load().MarkRUBack(ru, a.FirstMEP)
	}
	if isLast && !c.losses.isUnitOver(c.ruRanks[ru], core.Readout) { // else the link is that of the next process
		c.dropLink(c.ruRanks[ru])
	}
	if err := c.unit.Load().MarkRUGone(ru, true); err != nil {
		return err
	}
	c.losses.setUnitOver(c.ruRanks[ru], core.Readout, true)
	return nil
}

func (c *builder) stop(_ context.Context, giveUp bool) error {
	if !giveUp {
		c.out.liftBacklogLimit()
	}
	if unit := c.unit.Load(); unit != nil {
		if err := unit.Close(); err != nil {
			c.node.log.Warn("the builder unit did not end cleanly", "err", err)
		}
	}
	if fb := c.conn.Swap(nil); fb != nil {
		if err := fb.Close(); err != nil { // the scheduler may be gone
			c.node.log.Info("the scheduler may lack the last outcomes of this builder unit", "err", err)
		}
	}
	return nil
}

// followSuccessor has the unit go on with the successor of its scheduler. One that is excluded asks the successor to
// come back.
func (c *builder) followSuccessor() error {
	if fb := c.conn.Load(); fb != nil {
		return c.run.Load().goOn(fb.client.Load())
	}
	return nil
}

func (*builder) free() {}

func (c *builder) attachment() attachment {
	fb := c.conn.Load()
	switch {
	case fb == nil:
		return unattached
	case fb.excluded.Load():
		return excluded
	case isClosed(fb.sessionEnded):
		return detached
	}
	return attached
}

func (c *builder) linkLost(int) { c.noteLostLinks() }

// noteLostLinks has an excluded builder unit finish with the readout units to which the link is down: it does not hear
// from the scheduler that they are gone, and their next processes need links to this node.
func (c *builder) noteLostLinks() {
	unit, fb := c.unit.Load(), c.feedback.Load()
	if unit == nil || fb == nil || !fb.excluded.Load() {
		return
	}
	for _, rank := range c.losses.ranks() {
		ru := slices.Index(c.ruRanks, rank)
		if ru < 0 || !c.isExpendable(rank) || c.losses.isUnitOver(rank, core.Readout) {
			continue
		}
		if err := unit.MarkRUGone(ru, false); err != nil {
			c.reportFault("builder unit", err)
			return
		}
		c.losses.setUnitOver(rank, core.Readout, true)
	}
}

// drainExcluded is called when the builder unit is excluded. It waits until no readout unit has anything under way to
// it, and its complete MEPs are in its output.
func (c *builder) drainExcluded(ctx context.Context) error {
	unit, fb := c.unit.Load(), c.feedback.Load()
	if unit == nil || fb == nil {
		return nil
	}
	return unit.Reset(ctx, uint32(fb.Exclusions.Load()))
}

// progress is how many MEPs have their outcome.
func (c *builder) progress() uint64 {
	unit := c.unit.Load()
	if unit == nil {
		return 0
	}
	s := unit.Stats()
	return s.BuiltMEPs + s.IncompleteMEPs + s.DiscardedMEPs + s.RejectedMEPs
}

// report adds the counters of the unit, and the parts of readout units that are missing in its MEPs.
func (c *builder) report(f *figures) {
	unit := c.unit.Load()
	if unit == nil {
		return
	}
	f.Builder = new(unit.Stats())
	if fb := c.feedback.Load(); fb != nil {
		f.Feedback = &fb.feedbackCounters
	}
	if f.message == nil {
		return
	}
	for ru, m := range unit.MissingByRU() {
		if m.MEPs > 0 {
			f.message.Missing = append(f.message.Missing, &nodev1.Missing{
				RuIndex:  uint32(ru),
				Meps:     m.MEPs,
				Events:   m.Events,
				FirstMep: m.FirstMEP,
				LastMep:  m.LastMEP,
			})
		}
	}
}
