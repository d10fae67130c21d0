package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/internal/hugepages"
	"ringlet/internal/stopwatch"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/readoutunit"
	"ringlet/source"
	"ringlet/source/live"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
)

// readout is a readout unit as a component.
type readout struct {
	*base
	ru int // its index
	// onTriggered is called when all events below a number are triggered; nil: ignored.
	onTriggered func(below uint64)
	progress    func() uint64 // changes while there is progress on this node

	unit    atomic.Pointer[readoutunit.Unit] // of the last run
	barrier atomic.Pointer[barrier.Barrier]  // of the last run
	conn    atomic.Pointer[tagnet.RUClient]  // while the unit is attached
	run     atomic.Pointer[runStart]         // the last run
	live    atomic.Pointer[source.Live]      // sources of the last run; nil: its data are not live

	badInputReported atomic.Bool // to the state machine, in this run

	mu      sync.Mutex // guards the fields below
	arenas  [][]byte   // memory of its data, used by one run after the other
	pending error      // writes of the last run are still under way, so their memory cannot be used again
}

func newReadout(b *base, h *handlers, ru int, progress func() uint64) *readout {
	c := &readout{base: b, ru: ru, progress: progress}
	h.onSignal(placing.KindGrant, forUnit(&c.unit, (*readoutunit.Unit).HandleGrant))
	h.onSignal(placing.KindPreGrants, forUnit(&c.unit, (*readoutunit.Unit).HandlePreGrants))
	h.onSignal(placing.KindTag, c.fromReadout(forUnit(&c.unit, (*readoutunit.Unit).HandleTag)))
	h.onSignal(placing.KindBarrier, c.fromReadout(forUnit(&c.barrier,
		func(bar *barrier.Barrier, from int, payload []byte) error { return bar.Deliver(from, payload[1:]) })))
	h.completed = append(h.completed, func(peer int, cookie uint64, err error) bool {
		unit := c.unit.Load()
		if unit != nil {
			unit.HandleCompletion(peer, cookie, err)
		}
		return unit != nil
	})
	return c
}

// fromReadout makes a handler for signals of readout units out of take. take gets the index of the readout unit in
// place of the rank.
func (c *readout) fromReadout(take signalHandler) signalHandler {
	return func(peer int, payload []byte) error {
		if from, ok := c.ruByRank[peer]; ok {
			return take(from, payload)
		}
		return errNoSuchUnit
	}
}

func (c *readout) start(ctx context.Context, run *runStart) (err error) {
	c.mu.Lock()
	pending := c.pending
	c.mu.Unlock()
	if pending != nil {
		return fmt.Errorf("writes of the last run are under way still: reset and configure this node again (%w)", pending)
	}
	c.badInputReported.Store(false)
	src, err := c.openSource(ctx, run.GetBack())
	if err != nil {
		return &subsystemError{subsystemInput, err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, src.Close())
		}
	}()
	core, err := barrier.NewCore(c.cfg.BarrierKind(), c.cfg.RUs, c.ru)
	if err != nil {
		return err
	}
	bar := barrier.New(core, signaler{c.base, placing.KindBarrier, c.ruRanks, c.isExpendableReadout}, barrier.Options{
		Timeout: max(c.cfg.Debug.BarrierTimeout, c.node.cfg.MinBarrierTimeout),
		Slack:   c.cfg.EffectiveSlack(),
	})
	defer func() {
		if err != nil {
			err = errors.Join(err, bar.Close())
		}
	}()
	c.barrier.Store(bar)
	address, scope, opts := run.attach()
	client, err := tagnet.DialRU(ctx, address, scope, c.handleUnitNews, opts...)
	if err != nil {
		return err
	}
	run.setResumeTimeout(client, &c.cfg)
	c.run.Store(run)
	c.conn.Store(client)
	cfg := c.unitConfig(src, client, bar)
	if run.GetBack() {
		if cfg.Rejoin = client.RejoinPoint(); !cfg.Rejoin.Rejoined || int(cfg.Rejoin.RU) != c.ru {
			return errNotReadmitted
		}
		if err := source.BeginAtMEP(ctx, src, cfg.Rejoin.FirstMEP); err != nil {
			return err
		}
	}
	if err := c.allocateRetention(&cfg); err != nil {
		return err
	}
	unit := readoutunit.New(cfg)
	c.unit.Store(unit) // before the unit announces anything: the grant may come back at once
	for _, rank := range c.losses.ranks() {
		unit.HandleLinkDown(rank) // links that were down before the unit existed
	}
	unit.Start()
	c.beginUnawaited(run)
	return nil
}

// beginUnawaited tells front-ends where a run is that has begun, unless the control does so when all are ready.
func (c *readout) beginUnawaited(run *runStart) {
	where := live.Begin
	if run.GetPaused() {
		where = live.Pause
	}
	if sources := c.live.Load(); sources != nil && (run.GetBack() || !c.cfg.AwaitsFrontends()) {
		sources.Want(where, source.AllSources)
	}
}

var errNotReadmitted = errors.New(
	"the scheduler named no rejoin point for this readout unit, although the run has already begun")

// openSource opens the readout unit's source. back: for a run that has begun.
func (c *readout) openSource(ctx context.Context, back bool) (source.Source, error) {
	settings, err := c.cfg.SourceSettings(c.ru)
	if err != nil {
		return nil, err
	}
	settings.Live.Log, settings.Live.Run = c.node.log, uint64(c.node.run.Load())
	settings.Live.Busy.Name = c.node.cfg.Name
	settings.Live.Hold = !back && c.cfg.AwaitsFrontends()
	kind, _ := c.cfg.Source()
	src, err := kind.Open(ctx, settings)
	if err != nil {
		return nil, err
	}
	sources, _ := src.(*source.Live)
	c.live.Store(sources)
	return source.PaceSource(src, c.cfg.Rate, c.cfg.Packing), nil
}

// unitConfig is the configuration of the readout unit without the memory of its data.
func (c *readout) unitConfig(src source.Source, client *tagnet.RUClient, bar *barrier.Barrier) readoutunit.Config {
	_, length := c.cfg.Phases()
	cfg := readoutunit.Config{
		CoreConfig: readoutunit.CoreConfig{
			RU:            c.ru,
			RUs:           c.cfg.RUs,
			Transfers:     c.openTransfers(c.ru),
			Streams:       c.cfg.Division().SourceCount(c.ru),
			Push:          c.cfg.DisciplineKind().Push,
			PhaseTime:     length,
			UnheldPhases:  !c.cfg.Phased(),
			TimelineSteps: keptTimelineSteps,
		},
		BURanks:         c.buRanks,
		Source:          src,
		Network:         c.endpoint,
		Scheduler:       client,
		Barrier:         bar,
		ForwardTag:      c.tagForwarder(client),
		Log:             c.node.log,
		Fail:            func(err error) { c.reportFault("readout unit", err) },
		ToleratesBULoss: c.expendableBuilders(),

		ToleratesReadoutLoss: c.toleratesReadoutLoss(),
	}
	if c.onTriggered != nil {
		cfg.OnTriggered = func(below uint64) { c.onTriggered(below * uint64(c.cfg.Packing)) }
	}
	if frees, written := c.cfg.FreesRejected(); frees {
		cfg.Rejection = readoutunit.RejectionPolicy{Packing: c.cfg.Packing, IncludesWritten: written}
	}
	return cfg
}

// tagForwarder passes tags on to the next readout unit, or back to the scheduler. One goroutine at a time calls it. A
// tag for a unit that is lost starts again. It is nil in disciplines without tags.
func (c *readout) tagForwarder(sched *tagnet.RUClient) func(next int, t *tagcore.Tag) error {
	if !c.cfg.DisciplineKind().Tags {
		return nil
	}
	var words [tagcore.MaxTagWords]uint64
	var message []byte
	return func(next int, t *tagcore.Tag) error {
		if next < 0 {
			return sched.ReturnTag(t)
		}
		message = placing.AppendTag(message[:0], t.AppendWords(words[:0]))
		err := c.endpoint.Signal(c.ruRanks[next], message)
		if err != nil && c.isExpendableReadout(c.ruRanks[next]) {
			return nil
		}
		return err
	}
}

// allocateRetention allocates the memory of the blocks under way. It is outside the garbage collector's heap, whose
// size decides how often the collector runs. The links may repeat a write until they are closed, so only free unmaps
// the memory.
func (c *readout) allocateRetention(cfg *readoutunit.Config) error {
	block, blocks := c.cfg.RetentionBuffers(c.ru, cfg.Source.MaxBlock())
	arena, err := c.allocateArena(blocks * block)
	if err != nil {
		return fmt.Errorf("no memory for %d blocks of %d bytes in the readout unit: %w", blocks, block, err)
	}
	cfg.Retention, err = readoutunit.NewRetention(arena, block)
	return err
}

// allocateArena returns memory of the given size: the memory of the last run, if it has this size and no write from it
// is under way; else new memory.
func (c *readout) allocateArena(size int) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.arenas); n > 0 && len(c.arenas[n-1]) == size {
		return c.arenas[n-1], nil
	}
	arena, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		c.arenas = append(c.arenas, hugepages.Advise(arena))
	}
	return arena, err
}

// drainTimeout is how long a readout unit waits, without progress, for the responses to its last writes when the run is
// over; a lost response is repaired in 20 ms.
const drainTimeout = 2 * time.Second

func (c *readout) stop(ctx context.Context, giveUp bool) error {
	if unit := c.unit.Load(); unit != nil {
		if !giveUp {
			c.drain(ctx, unit)
		}
		_ = unit.Close() // an error while closing a source loses no data
	}
	if client := c.conn.Swap(nil); client != nil {
		if err := client.Close(); err != nil { // the scheduler may be gone
			c.node.log.Info("the scheduler may lack the last reports of this readout unit", "err", err)
		}
	}
	return nil
}

// followSuccessor has the unit go on with the successor of its scheduler.
func (c *readout) followSuccessor() error {
	if client := c.conn.Load(); client != nil {
		return c.run.Load().goOn(client)
	}
	return nil
}

func (c *readout) drain(ctx context.Context, unit *readoutunit.Unit) {
	ctx, cancel := stopwatch.WithStallTimeout(ctx, max(drainTimeout, c.node.cfg.MinTimeout), c.progress, nil)
	defer cancel()
	if err := unit.Drain(ctx); err != nil {
		c.node.log.Warn("stopping the readout unit before all its writes have outcomes", "err", err)
		c.mu.Lock()
		c.pending = err
		c.mu.Unlock()
	}
}

func (c *readout) free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.arenas {
		if err := unix.Munmap(a); err != nil {
			c.node.log.Error("the readout unit's memory was not given back", "err", err)
		}
	}
	c.arenas = nil
}

func (c *readout) attachment() attachment {
	switch client := c.conn.Load(); {
	case client == nil:
		return unattached
	case isClosed(client.Done()):
		return detached
	}
	return attached
}

func (c *readout) linkLost(rank int) {
	if unit := c.unit.Load(); unit != nil && c.isExpendable(rank) {
		unit.HandleLinkDown(rank)
	}
}

// report adds the counters of the unit and of its live sources, and reports bad input.
func (c *readout) report(f *figures) {
	unit := c.unit.Load()
	if unit == nil {
		return
	}
	f.Readout, f.Barrier = new(unit.Stats()), new(c.barrier.Load().Stats())
	if f.message == nil {
		return
	}
	w := &f.Readout.BarrierStats
	f.histogram(HistogramBarrier, w.BarrierWaits)
	f.histogram(HistogramSkew, w.EpochSkews)
	for ru, h := range w.HoldTimesByRU {
		f.histogram(HistogramHeld+strconv.Itoa(ru), h)
	}
	f.message.Reasons = sourceRejectReasons(f.Readout.Live)
	f.message.Frontends = textBySource(f.Readout.Live, func(s *source.LiveStats) string { return s.Frontend })
	f.message.SourceLives = sourceLives(c.live.Load())
	f.message.SourceNames = textBySource(f.Readout.Live, func(s *source.LiveStats) string { return s.GivenName })
	for _, s := range f.Readout.Live {
		f.histogram(HistogramSourceSizes+strconv.Itoa(int(s.SourceID)), s.Sizes)
		f.histogram(HistogramSourceIntervals+strconv.Itoa(int(s.SourceID)), s.Intervals)
		f.histogram(HistogramSourceBanks+strconv.Itoa(int(s.SourceID)), s.Banks)
		f.message.SourceHistories = append(f.message.SourceHistories, historyMessage(&s))
	}
	slices.SortFunc(f.message.SourceHistories, func(a, b *nodev1.SourceHistory) int {
		return cmp.Compare(a.GetSource(), b.GetSource())
	})
	if why := unit.InputFailure(); why != nil {
		c.reportBadInput(why)
	}
	if bad := unit.BadRecord(); bad != nil {
		c.reportBadInput(bad)
	}
	f.message.Timeline = timeline(unit, f.steps)
}

// reportBadInput reports once that the input is bad. The MEPs before are built, so the node is not in error.
func (c *readout) reportBadInput(bad error) {
	if c.badInputReported.Swap(true) {
		return
	}
	if err := c.node.runner.Degrade(c.node.makeCause("input", bad)); err != nil {
		c.node.logTooLate("bad input", bad, err)
	}
}

// Kinds of reasons why data of a live source were rejected.
const (
	ReasonRefused    = "refused" // by the carrier
	ReasonThrownAway = "thrown"  // because of its number
)

// sourceRejectReasons lists why data of live sources were rejected, by source id.
func sourceRejectReasons(of map[string]source.LiveStats) (out []*nodev1.Reason) {
	for _, s := range of {
		for kind, why := range map[string]string{ReasonRefused: s.Refusal, ReasonThrownAway: s.LastFault} {
			if why != "" {
				out = append(out, &nodev1.Reason{Source: uint32(s.SourceID), Kind: kind, Why: why})
			}
		}
	}
	slices.SortFunc(out, func(a, b *nodev1.Reason) int {
		return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), strings.Compare(a.GetKind(), b.GetKind()))
	})
	return out
}

// textBySource maps source ids to a text, where there is one.
func textBySource(of map[string]source.LiveStats, text func(*source.LiveStats) string) map[uint32]string {
	out := map[uint32]string{}
	for _, s := range of {
		if t := text(&s); t != "" {
			out[uint32(s.SourceID)] = t
		}
	}
	return out
}

// finalReportSteps is how many of the last steps of a readout unit are in the final report.
const finalReportSteps = 24

// keptTimelineSteps is how many steps a readout unit keeps for viewers of the run. A step costs three readings of the
// clock (docs/design/029-figures.md has the total).
const keptTimelineSteps = 64

// timeline is the last steps of a readout unit, at most most of them.
func timeline(unit *readoutunit.Unit, most int) []*nodev1.Step {
	if most <= 0 {
		return nil
	}
	kept := unit.Timeline()
	kept = kept[max(0, len(kept)-most):]
	steps := make([]*nodev1.Step, len(kept))
	for i, k := range kept {
		steps[i] = &nodev1.Step{
			Phase:      k.Phase,
			Builder:    int32(k.BU),
			Mep:        k.MEP,
			Meps:       uint32(k.MEPs),
			BeginUs:    k.BeginMicros,
			SentUs:     k.OutcomeMicros,
			ReleasedUs: k.ReleasedMicros,
		}
	}
	return steps
}
