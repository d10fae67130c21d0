package readoutunit

// Pipeline of an MFP:
//
//	1 read      (sequential: reader)       source → retention buffers, many MEPs at a time, every byte written once;
//	                                       the scheduler learns how far
//	2 dispatch  (sequential: dispatcher)   tokens came; where windows are granted for each MEP, its sizes and CRCs to
//	                                       the builder unit
//	3 HandleGrant (parallel: receivers)    the window to write to, under mu
//	4 conduct   (sequential: conductor)    in its phase, a burst: one write of many small parts, or one for each large,
//	                                       from their buffers
//	5 HandleCompletion (parallel: receivers)    the burst has its outcome; fence and barrier go on
//	6 release   (sequential: dispatcher)   MEPs have their outcome everywhere: their buffers are free
//	7 forward   (sequential: forwarder)    in a tag ring: a tag that this unit is done with goes on to the next, or
//	                                       back to the scheduler
//
// Where windows are pre-granted, the dispatcher asks for them once and there is no stage 3: nothing is done per MEP
// but to take its token and to put its part into a burst.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/internal/stopwatch"
	"ringlet/readoutunit/source"
	"ringlet/readoutunit/source/live"
	"ringlet/tagnet"
	"ringlet/transport/link"
)

// Network is what a readout unit needs of its endpoint.
type Network interface {
	WriteMany(rank int, pieces []link.Piece, cookie uint64) error
	// RelocateWrite has the pieces of a write under way lie elsewhere. It reports false where there is no such write any
	// more, or none yet.
	RelocateWrite(rank int, cookie uint64, to func(piece int) []byte) bool
	Signal(rank int, payload []byte) error
}

// Scheduler is what a readout unit needs of TagNet.
type Scheduler interface {
	// Update tells what has been read; it does not wait.
	Update(tagnet.Update) error
	// Next waits for tokens; io.EOF says that none will follow.
	Next(ctx context.Context) (tagnet.Tokens, error)
	// TryNext gives tokens that are here already, and false if there are none. It does not wait.
	TryNext() (tagnet.Tokens, bool)
	// ConfirmExclusion tells that an exclusion is over here, by its place among all in Tokens.Withdrawals. It does
	// not wait.
	ConfirmExclusion(exclusion uint64) error
}

// Config of a Unit.
type Config struct {
	RU, RUs    int
	BURanks    []int // rank of each builder unit, by index
	SlotsPerBU int   // of each builder unit
	Source     source.Source
	Retention  *Retention
	Streams    int // MFPs in each block
	// ToleratesBULoss says, by builder unit, whether the run tolerates the loss of the link to it. Nil: of none.
	ToleratesBULoss []bool
	// ToleratesReadoutLoss says that the run may go on without readout units: one that does not come to the barrier is
	// waited for until the scheduler says that it is gone.
	ToleratesReadoutLoss bool
	// Rejoin is the return with which the unit takes part, where it came back in the run: Source gives the MEPs from that
	// of the return on. Zero: it was there from the beginning.
	Rejoin tagnet.Absence
	// Rejection says what is given up since its events were rejected.
	Rejection RejectionPolicy
	Network   Network
	Scheduler Scheduler
	Barrier   *barrier.Barrier
	Order     Order // the discipline
	// ForwardTag passes a tag on to the next readout unit of the tag ring, and from the last one back to the scheduler;
	// io.EOF says that nobody wants tags any more. Nil where Order is no TagOrder.
	ForwardTag func(t *tagnet.Tag) error
	// OnTriggered is told, by one goroutine, that MEPs below that number have tokens, so that their events are triggered.
	// It must not wait. It may be nil.
	OnTriggered func(below uint64)
	// PhaseTime is the length of a phase where phases end with time; Free, where they end unheld.
	PhaseTime    time.Duration
	UnheldPhases bool
	// TimelineSteps is how many steps are kept for Unit.Timeline, the last ones. 0: none.
	TimelineSteps int
	// Fail is called at most once, when the unit cannot go on. It must not call Close.
	Fail func(error)
	Log  *slog.Logger
}

// Unit is a readout unit: a pure Order, burstPool, Retention, and the goroutines of the pipeline above.
type Unit struct {
	// immutable after New
	cfg      Config
	buByRank map[int]int // builder unit's index by rank
	ctx      context.Context
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup

	source source.BatchSource
	live   *source.Live // the source, where it is live; else nil

	// owned by the dispatcher: scratch
	announcement       placing.Announce
	message            []byte
	preGrantsRequested bool   // for the pre-granted windows
	presentRUs         []bool // by readout unit: it takes part, as far as it is known here

	// atomic
	mfpsRead, tokensReceived, phasesPassed, dummyPhases atomic.Uint64
	phaseOverruns                                       atomic.Uint64
	// writes that nobody waited for, and that were refused
	failedOrphanWrites                        atomic.Uint64
	partsWritten, bytesWritten, refusedGrants atomic.Uint64
	badRecord                                 atomic.Pointer[source.BadRecordError]
	inputFailure                              atomic.Pointer[live.EndError]
	bytesByBU                                 []atomic.Uint64 // by builder unit

	closing  sync.Once
	closeErr error // of closing

	// where the reader and the conductor wait
	sourceTime, bufferWait, tokenWait stopwatch.Stopwatch

	mu              sync.Mutex // guards what follows
	changed         *sync.Cond // the order has changed, or ctx is over
	order           Order
	tokensBelow     uint64 // MEPs below it have tokens
	bursts          *burstPool
	rejections      *Rejections
	releasedBelow   uint64   // MEPs below it have their outcome, or were put aside
	tagOrder        TagOrder // the order, where it is one; else nil
	cyclesEnded     bool     // no more cycles will come
	conductorDone   bool     // and the conductor has left the last phase
	failed          bool
	closed          bool
	barrierStats    BarrierStats
	pacer           roundPacer
	timeline        timeline
	preGrants       placing.PreGrants // scratch
	grantWait       time.Duration     // time waiting for grants in all
	timesLinkFull   uint64            // times that the link to a builder unit took no more
	relocatedWrites uint64            // writes under way whose bytes were moved
	firstPhaseAt    time.Time         // first phase
	lastPhaseAt     time.Time         // last phase
}

// maxMicros is the largest time a histogram holds: one hour.
const maxMicros = int64(time.Hour / time.Microsecond)

// New makes a readout unit. Next come Start, its handlers HandleGrant and HandleCompletion, then Close.
func New(cfg Config) *Unit {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	u := &Unit{
		cfg:          cfg,
		buByRank:     map[int]int{},
		source:       source.AsBatchSource(cfg.Source, cfg.Streams),
		bytesByBU:    make([]atomic.Uint64, len(cfg.BURanks)),
		order:        cfg.Order,
		bursts:       newBurstPool(len(cfg.BURanks)),
		rejections:   NewRejections(cfg.Rejection, cfg.Retention.Len()),
		barrierStats: newBarrierStats(cfg.RU, cfg.RUs),
		timeline:     newTimeline(cfg.TimelineSteps),
		presentRUs:   slices.Repeat([]bool{true}, cfg.RUs),
	}
	if cfg.Rejoin.Rejoined {
		cfg.Order.BeginAt(cfg.Rejoin.FirstCycle, cfg.Rejoin.FirstMEP)
		cfg.Retention.beginAt(cfg.Rejoin.FirstMEP)
	}
	u.tagOrder, _ = cfg.Order.(TagOrder)
	u.live, _ = cfg.Source.(*source.Live)
	for i, rank := range cfg.BURanks {
		u.buByRank[rank] = i
	}
	u.changed = sync.NewCond(&u.mu)
	u.ctx, u.cancel = context.WithCancelCause(context.Background())
	context.AfterFunc(u.ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.changed.Broadcast()
	})
	return u
}

// Start begins to read and to serve tokens. Grants may come before it returns.
func (u *Unit) Start() {
	stages := []func() error{u.runReader, u.runDispatcher, u.runConductor}
	if u.tagOrder != nil {
		stages = append(stages, u.forwardTags)
	}
	for _, f := range stages {
		u.wg.Go(func() {
			if err := f(); err != nil && u.ctx.Err() == nil {
				u.fail(err)
			}
		})
	}
	if u.live != nil {
		u.live.BeginIntake(u.reportReach)
	}
}

// runReader fills the retention buffers and tells the scheduler how far it has come. It waits until an eighth of them
// is free: what it reads at a time is what is reported to the scheduler at a time, and each report costs a message.
func (u *Unit) runReader() error {
	buffers := u.cfg.Retention
	least := max(1, buffers.Len()/8)
	var up tagnet.Update
	for {
		u.bufferWait.Start()
		first, strip, sizes, err := buffers.reserve(u.ctx, least)
		u.bufferWait.Stop()
		if err != nil {
			return err
		}
		u.sourceTime.Start()
		run, ended := u.source.NextBlocks(u.ctx, strip, sizes[:min(len(sizes), least)])
		u.sourceTime.Stop()
		if run.Blocks > 0 {
			if run.MEP != first {
				return fmt.Errorf("the source gave MEP %d where %d follows", run.MEP, first)
			}
			buffers.commit(run.Blocks)
			u.mfpsRead.Add(uint64(run.Blocks * u.cfg.Streams))
			up.ReadBelow, up.Events = run.MEP+uint64(run.Blocks), up.Events+run.Events
		}
		if ended != nil {
			return u.endInput(up, ended)
		}
		if more, err := u.updateScheduler(up); err != nil || !more {
			return err
		}
	}
}

// endInput takes the error that ended the input. Bad input and a proper end are reported to the scheduler; any other is
// returned.
func (u *Unit) endInput(up tagnet.Update, err error) error {
	var record *source.BadRecordError
	var down *live.EndError
	switch {
	case errors.As(err, &down):
		u.inputFailure.Store(down)
		u.cfg.Log.Error("a live source lets the run down, what came before is built", "err", down)
	case errors.As(err, &record):
		// What was read before it is still to be built; the run learns of it from BadRecord.
		u.badRecord.Store(record)
		u.cfg.Log.Info("the input is bad, what came before it is built", "err", record)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("reading the source: %w", err)
	}
	up.InputEnded = true
	_, err = u.updateScheduler(up)
	return err
}

// updateScheduler updates the scheduler. It reports false when that wants nothing more: the run is drained.
func (u *Unit) updateScheduler(up tagnet.Update) (bool, error) {
	err := u.cfg.Scheduler.Update(up)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// runDispatcher takes tokens, announces what has no pre-granted window, and frees what is released.
func (u *Unit) runDispatcher() error {
	for {
		t, err := u.cfg.Scheduler.Next(u.ctx)
		if errors.Is(err, io.EOF) {
			u.endCycles()
			return nil
		}
		if err != nil {
			return err
		}
		u.applyWithdrawals(t.Withdrawals)
		u.applyCuts(&t)
		if err := u.applyAbsences(t.Absences); err != nil {
			return err
		}
		if err := u.applyTokens(&t); err != nil {
			return err
		}
		u.tokensReceived.Add(countTokens(&t.Batch))
		if u.hasRetainedMEPs(&t.Batch) {
			if err := u.prepareWindows(&t.Batch); err != nil {
				return err
			}
		}
		u.recordTokens(&t.Batch)
		if err := u.launchTags(&t); err != nil {
			return err
		}
	}
}

// hasRetainedMEPs tells whether a batch has tokens of MEPs that the unit has. Builder units take it for gone before
// such came.
func (u *Unit) hasRetainedMEPs(b *tagnet.Batch) bool {
	if !u.cfg.Rejoin.Rejoined {
		return b.Len() > 0
	}
	for _, mep := range b.MEPs {
		if mep != tagnet.NoMEP && mep >= u.cfg.Rejoin.FirstMEP {
			return true
		}
	}
	return false
}

// applyTokens gives the cycles of a batch to the order, and frees what is released.
func (u *Unit) applyTokens(t *tagnet.Tokens) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cfg.Retention.copyHeldUp(t.HeldUp)
	u.order.Release(lowestNeeded(t))
	u.releasedBelow = t.Released
	u.bursts.Release(t.Released)
	u.relocateHeldUp(t.HeldUp)
	u.freeBuffers()
	for i := range t.Len() {
		if err := u.order.AddCycle(&t.Batch, i); err != nil {
			return err
		}
	}
	if t.Len() > 0 {
		u.changed.Broadcast()
		u.reportTriggered(t.MEPs)
	}
	return nil
}

// reportTriggered tells how far tokens have come.
func (u *Unit) reportTriggered(meps []uint64) {
	if u.cfg.OnTriggered == nil {
		return
	}
	for _, mep := range meps {
		if mep != tagnet.NoMEP && mep >= u.tokensBelow {
			u.tokensBelow = mep + 1
		}
	}
	u.cfg.OnTriggered(u.tokensBelow)
}

// lowestNeeded is the lowest MEP without an outcome, for what gives up everything in order.
func lowestNeeded(t *tagnet.Tokens) uint64 {
	if len(t.HeldUp) > 0 {
		return t.HeldUp[0]
	}
	return t.Released
}

// endCycles notes that no cycle will come any more.
func (u *Unit) endCycles() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cyclesEnded = true
	u.changed.Broadcast()
}

// HandleCompletion takes the outcome of a write, told by the endpoint.
func (u *Unit) HandleCompletion(rank int, cookie uint64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if bu, ok := u.buByRank[rank]; ok && u.order.IsLost(bu) {
		return // it has been given up, and so has its memory
	}
	b, wrong := u.bursts.complete(cookie)
	if wrong != nil {
		u.failLocked(errors.Join(wrong, err))
		return
	}
	t := u.order.TransferAt(b.Places[0])
	if err != nil && t.Stage != stageOrphaned {
		u.failLocked(fmt.Errorf("writing MEP %d to slot %d of builder unit %d: %w", t.MEP, t.Slot, b.BU, err))
		return
	}
	u.finishBurst(b, err != nil)
	u.updateLinkFull(b.BU)
	u.freeBuffers()
	u.changed.Broadcast()
}

// finishBurst takes that a burst is over; one may have failed that nobody waits for. mu is held.
func (u *Unit) finishBurst(b *burst, failed bool) {
	first := u.order.TransferAt(b.Places[0])
	orphaned := first.Stage == stageOrphaned
	u.timeline.recordSent(b.BU, first.MEP)
	if err := u.order.Complete(b.Places); err != nil {
		u.failLocked(err)
		return
	}
	if orphaned {
		u.confirmQuiesced()
	}
	if failed {
		u.failedOrphanWrites.Add(uint64(len(b.Places)))
		return
	}
	u.partsWritten.Add(uint64(len(b.Places)))
	u.bytesWritten.Add(b.Bytes)
	u.bytesByBU[b.BU].Add(b.Bytes)
}

// BadRecord is the record that ended the input, or nil.
func (u *Unit) BadRecord() *source.BadRecordError { return u.badRecord.Load() }

func (u *Unit) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failLocked(err)
}

func (u *Unit) failLocked(err error) {
	if u.failed || u.closed {
		return
	}
	u.failed = true
	u.wg.Go(func() { u.cfg.Fail(err) })
}

// Close ends the unit and its source, and frees what it kept. Whoever calls it while it is under way waits too, and has
// the same error: the unit's memory may be taken away after it, and not before.
func (u *Unit) Close() error {
	u.closing.Do(func() { u.closeErr = u.shutDown() })
	return u.closeErr
}

func (u *Unit) shutDown() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.cancel(errClosed)
	u.cfg.Retention.Close()
	_ = u.cfg.Barrier.Close()
	u.wg.Wait()
	return u.cfg.Source.Close()
}
