package readoutunit

// Pipeline of an MFP:
//
//	1 read      (sequential: reader)       source → retention buffers, many MEPs at a time, every byte written once;
//	                                       the scheduler learns how far
//	2 dispatch  (sequential: dispatcher)   tokens came; where windows are granted for each MEP, its sizes and CRCs to
//	                                       the builder unit
//	3 Grant     (parallel: receivers)      the window to write to, under mu
//	4 conduct   (sequential: conductor)    in its phase, a burst: one write of many small parts, or one for each large,
//	                                       from their buffers
//	5 Completed (parallel: receivers)      the burst has its outcome; fence and barrier go on
//	6 release   (sequential: dispatcher)   MEPs have their outcome everywhere: their buffers are free
//	7 forward   (sequential: forwarder)    in a ring: a tag that this unit is done with goes on to the next, or back to
//	                                       the scheduler
//
// Where windows stand for all MEPs, the dispatcher asks for them once and there is no stage 3: nothing is done per MEP
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
	// Move has the pieces of a write under way lie elsewhere. It reports false where there is no such write any more, or
	// none yet.
	Move(rank int, cookie uint64, to func(piece int) []byte) bool
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
	// Settle tells that an exclusion is over here, by its place among all that Tokens.Withdrawn told. It does not wait.
	Settle(exclusion uint64) error
}

// Config of a Unit.
type Config struct {
	RU, RUs   int
	BURanks   []int // rank of each builder unit, by index
	Slots     int   // of each builder unit
	Source    source.Source
	Retention *Retention
	Streams   int // MFPs in each block
	// Expendable says, by builder unit, whether the run bears the loss of the link to it. Nil: of none.
	Expendable []bool
	// BearsReadout says that the run may go on without readout units: one that does not come to the barrier is waited for
	// until the scheduler says that it is gone.
	BearsReadout bool
	// Back is the return with which the unit takes part, where it came back in the run: Source gives the MEPs from that of
	// the return on. Zero: it was there from the beginning.
	Back tagnet.Absence
	// Rejection says what is given up since its events were rejected.
	Rejection Rejection
	Network   Network
	Scheduler Scheduler
	Barrier   *barrier.Barrier
	Order     Order // the discipline
	// Forward passes a tag on to the next readout unit of the ring, and from the last one back to the scheduler; io.EOF
	// says that nobody wants tags any more. Nil where Order is no Ring.
	Forward func(t *tagnet.Tag) error
	// Triggered is told, by one goroutine, that MEPs below that number have tokens, so that their events are triggered. It
	// must not wait. It may be nil.
	Triggered func(below uint64)
	// PhaseTime is the length of a phase where phases end with time; Free, where they end unheld.
	PhaseTime time.Duration
	Free      bool
	// Timeline is how many steps are kept for Unit.Timeline, the last ones. 0: none.
	Timeline int
	// Fail is called at most once, when the unit cannot go on. It must not call Close.
	Fail func(error)
	Log  *slog.Logger
}

// Unit is a readout unit: a pure Order, burstPool, Retention, and the goroutines of the pipeline above.
type Unit struct {
	// immutable after New
	cfg    Config
	byRank map[int]int // builder unit's index by rank
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	source source.Many
	live   *source.Live // the source, where it is live; else nil

	// owned by the dispatcher: scratch
	announcement placing.Announce
	message      []byte
	asked        bool   // for the windows that stand
	present      []bool // by readout unit: it takes part, as far as it is known here

	// atomic
	mfps, tokens, phases, dummies  atomic.Uint64
	overruns                       atomic.Uint64
	leftFailed                     atomic.Uint64 // writes that nobody waited for, and that were refused
	written, bytesWritten, refused atomic.Uint64
	badSource                      atomic.Pointer[source.BadRecordError]
	letDown                        atomic.Pointer[live.EndError]
	bytesTo                        []atomic.Uint64 // by builder unit

	closing  sync.Once
	closeErr error // of closing

	// where the reader and the conductor wait
	forSource, forRoom, forTokens stopwatch.Stopwatch

	mu       sync.Mutex // guards what follows
	changed  *sync.Cond // the order has changed, or ctx is over
	order    Order
	below    uint64 // MEPs below it have tokens
	bursts   *burstPool
	rejected *Rejections
	released uint64 // MEPs below it have their outcome, or were put aside
	ring     Ring   // the order, where it is one; else nil
	ended    bool   // no more cycles will come
	parted   bool   // and the conductor has left the last phase
	failed   bool
	closed   bool
	waits    Waits
	pace     pace
	timeline timeline
	standing placing.PreGrants // scratch
	grants   time.Duration     // time waiting for grants in all
	full     uint64            // times that the link to a builder unit took no more
	moved    uint64            // writes under way whose bytes were moved
	began    time.Time         // first phase
	over     time.Time         // last phase
}

// maxMicros is the largest time a histogram holds: one hour.
const maxMicros = int64(time.Hour / time.Microsecond)

// New makes a readout unit. Next come Start, its handlers Grant and Completed, then Close.
func New(cfg Config) *Unit {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	u := &Unit{
		cfg:      cfg,
		byRank:   map[int]int{},
		source:   source.InMany(cfg.Source, cfg.Streams),
		bytesTo:  make([]atomic.Uint64, len(cfg.BURanks)),
		order:    cfg.Order,
		bursts:   newBursts(len(cfg.BURanks)),
		rejected: NewRejections(cfg.Rejection, cfg.Retention.Len()),
		waits:    newWaits(cfg.RU, cfg.RUs),
		timeline: newTimeline(cfg.Timeline),
		present:  slices.Repeat([]bool{true}, cfg.RUs),
	}
	if cfg.Back.Back {
		cfg.Order.Begin(cfg.Back.Cycle, cfg.Back.MEP)
		cfg.Retention.begin(cfg.Back.MEP)
	}
	u.ring, _ = cfg.Order.(Ring)
	u.live, _ = cfg.Source.(*source.Live)
	for i, rank := range cfg.BURanks {
		u.byRank[rank] = i
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
	stages := []func() error{u.read, u.dispatch, u.conduct}
	if u.ring != nil {
		stages = append(stages, u.forward)
	}
	for _, f := range stages {
		u.wg.Go(func() {
			if err := f(); err != nil && u.ctx.Err() == nil {
				u.fail(err)
			}
		})
	}
	if u.live != nil {
		u.live.Begin(u.reach)
	}
}

// read fills the retention buffers and tells the scheduler how far it has come. It waits until an eighth of them is
// free: what it reads at a time is what the scheduler is told at a time, and each telling costs a message.
func (u *Unit) read() error {
	buffers := u.cfg.Retention
	least := max(1, buffers.Len()/8)
	var up tagnet.Update
	for {
		u.forRoom.Start()
		first, strip, sizes, err := buffers.reserve(u.ctx, least)
		u.forRoom.Stop()
		if err != nil {
			return err
		}
		u.forSource.Start()
		run, ended := u.source.NextMany(u.ctx, strip, sizes[:min(len(sizes), least)])
		u.forSource.Stop()
		if run.Blocks > 0 {
			if run.MEP != first {
				return fmt.Errorf("the source gave MEP %d where %d follows", run.MEP, first)
			}
			buffers.commit(run.Blocks)
			u.mfps.Add(uint64(run.Blocks * u.cfg.Streams))
			up.Read, up.Events = run.MEP+uint64(run.Blocks), up.Events+run.Events
		}
		if ended != nil {
			return u.inputOver(up, ended)
		}
		if more, err := u.tell(up); err != nil || !more {
			return err
		}
	}
}

// inputOver takes the error that ended the input. Bad input and a proper end are told to the scheduler; any other is
// returned.
func (u *Unit) inputOver(up tagnet.Update, err error) error {
	var bad *source.BadRecordError
	var down *live.EndError
	switch {
	case errors.As(err, &down):
		u.letDown.Store(down)
		u.cfg.Log.Error("a live source lets the run down, what came before is built", "err", down)
	case errors.As(err, &bad):
		// What was read before it is still to be built; the run learns of it from BadRecord.
		u.badSource.Store(bad)
		u.cfg.Log.Info("the input is bad, what came before it is built", "err", bad)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("reading the source: %w", err)
	}
	up.End = true
	_, err = u.tell(up)
	return err
}

// tell updates the scheduler. It reports false when that wants nothing more: the run is drained.
func (u *Unit) tell(up tagnet.Update) (bool, error) {
	err := u.cfg.Scheduler.Update(up)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// dispatch takes tokens, announces what has no standing window, and frees what is released.
func (u *Unit) dispatch() error {
	for {
		t, err := u.cfg.Scheduler.Next(u.ctx)
		if errors.Is(err, io.EOF) {
			u.noMore()
			return nil
		}
		if err != nil {
			return err
		}
		u.withdraw(t.Withdrawn)
		u.cut(&t)
		if err := u.change(t.Absent); err != nil {
			return err
		}
		if err := u.take(&t); err != nil {
			return err
		}
		u.tokens.Add(tokensIn(&t.Batch))
		if u.has(&t.Batch) {
			if err := u.prepare(&t.Batch); err != nil {
				return err
			}
		}
		u.give(&t.Batch)
		if err := u.launch(&t); err != nil {
			return err
		}
	}
}

// has tells whether a batch has tokens of MEPs that the unit has. Builder units take it for gone before such came.
func (u *Unit) has(b *tagnet.Batch) bool {
	if !u.cfg.Back.Back {
		return b.Len() > 0
	}
	for _, mep := range b.MEPs {
		if mep != tagnet.NoMEP && mep >= u.cfg.Back.MEP {
			return true
		}
	}
	return false
}

// take gives the cycles of a batch to the order, and frees what is released.
func (u *Unit) take(t *tagnet.Tokens) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cfg.Retention.putAside(t.HeldUp)
	u.order.Release(needed(t))
	u.released = t.Released
	u.bursts.Release(t.Released)
	u.moveAside(t.HeldUp)
	u.letGo()
	for i := range t.Len() {
		if err := u.order.Cycle(&t.Batch, i); err != nil {
			return err
		}
	}
	if t.Len() > 0 {
		u.changed.Broadcast()
		u.triggered(t.MEPs)
	}
	return nil
}

// triggered tells how far tokens have come.
func (u *Unit) triggered(meps []uint64) {
	if u.cfg.Triggered == nil {
		return
	}
	for _, mep := range meps {
		if mep != tagnet.NoMEP && mep >= u.below {
			u.below = mep + 1
		}
	}
	u.cfg.Triggered(u.below)
}

// needed is the lowest MEP without an outcome, for what gives up everything in order.
func needed(t *tagnet.Tokens) uint64 {
	if len(t.HeldUp) > 0 {
		return t.HeldUp[0]
	}
	return t.Released
}

// noMore notes that no cycle will come any more.
func (u *Unit) noMore() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.changed.Broadcast()
}

// Completed takes the outcome of a write, told by the endpoint.
func (u *Unit) Completed(rank int, cookie uint64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if bu, ok := u.byRank[rank]; ok && u.order.Lost(bu) {
		return // it has been given up, and so has its memory
	}
	b, wrong := u.bursts.complete(cookie)
	if wrong != nil {
		u.failLocked(errors.Join(wrong, err))
		return
	}
	t := u.order.At(b.Places[0])
	if err != nil && t.Stage != stageLeft {
		u.failLocked(fmt.Errorf("writing MEP %d to slot %d of builder unit %d: %w", t.MEP, t.Slot, b.BU, err))
		return
	}
	u.complete(b, err != nil)
	u.heed(b.BU)
	u.letGo()
	u.changed.Broadcast()
}

// complete takes that a burst is over; one may have failed that nobody waits for. mu is held.
func (u *Unit) complete(b *burst, failed bool) {
	first := u.order.At(b.Places[0])
	left := first.Stage == stageLeft
	u.timeline.sent(b.BU, first.MEP)
	if err := u.order.Complete(b.Places); err != nil {
		u.failLocked(err)
		return
	}
	if left {
		u.settle()
	}
	if failed {
		u.leftFailed.Add(uint64(len(b.Places)))
		return
	}
	u.written.Add(uint64(len(b.Places)))
	u.bytesWritten.Add(b.Bytes)
	u.bytesTo[b.BU].Add(b.Bytes)
}

// BadRecord is the record that ended the input, or nil.
func (u *Unit) BadRecord() *source.BadRecordError { return u.badSource.Load() }

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
	u.closing.Do(func() { u.closeErr = u.end() })
	return u.closeErr
}

func (u *Unit) end() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.cancel(errClosed)
	u.cfg.Retention.Close()
	_ = u.cfg.Barrier.Close()
	u.wg.Wait()
	return u.cfg.Source.Close()
}
