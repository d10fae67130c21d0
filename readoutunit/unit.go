package readoutunit

// Pipeline of an MFP:
//
//	1 read      (sequential: reader)       source → retention, every byte written once; the scheduler learns how far
//	2 announce  (sequential: dispatcher)   a token came: sizes and CRCs to its builder unit
//	3 Grant     (parallel: receivers)      the window to write to, under mu
//	4 conduct   (sequential: conductor)    in its phase, one remote write of all MFPs, straight from the retention
//	5 Completed (parallel: receivers)      the write has its outcome; fence and barrier go on
//	6 release   (sequential: dispatcher)   the MEP has its outcome everywhere: the block's memory is free
//	7 forward   (sequential: forwarder)    in a ring: a tag that this unit is done with goes on to the next, or back to the scheduler
//
// Where placing is by quota, stages 1, 2 and 4 are those of unitquota.go, and there is no stage 3.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/barrier"
	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/stopwatch"
	"ringlet/readoutunit/source"
	"ringlet/tagnet"
	"ringlet/transport/link"
)

// Network is what a readout unit needs of its endpoint.
type Network interface {
	Write(rank int, w link.Write) error
	WriteMany(rank int, pieces []link.Piece, cookie uint64) error
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
	Retention *Retention // nil where placing is by quota
	Rooms     *Rooms     // nil where placing is by announcement
	Streams   int        // MFPs in each block; for placing by quota
	// Expendable says, by builder unit, whether the run bears the loss of the link to it. Nil: of none.
	Expendable []bool
	Network    Network
	Scheduler  Scheduler
	Barrier    *barrier.Barrier
	// Order is the discipline; nil where placing is by quota, which is always in the order of a shift.
	Order Order
	// Forward passes a tag on to the next readout unit of the ring, and from the last one back to the scheduler; io.EOF says that nobody wants
	// tags any more. Nil where Order is no Ring.
	Forward func(t *tagnet.Tag) error
	// Window is the length of a phase where phases end with time; Free, where they end unheld: nothing is waited for, not even, by
	// quota, the outcome of writes.
	Window time.Duration
	Free   bool
	// Timeline is how many steps are kept for Unit.Timeline, the last ones. 0: none.
	Timeline int
	// Fail is called at most once, when the unit cannot go on. It must not call Close.
	Fail func(error)
	Log  *slog.Logger
}

// Unit is a readout unit: a pure Order, a Retention, and the goroutines of the pipeline above.
type Unit struct {
	// immutable after New
	cfg    Config
	byRank map[int]int // builder unit's index by rank
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	quota *quota // nil where placing is by announcement

	// owned by the dispatcher: scratch
	announcement placing.Announce
	message      []byte

	// atomic
	mfps, tokens, phases, dummies  atomic.Uint64
	overruns                       atomic.Uint64
	leftFailed                     atomic.Uint64 // writes that nobody waited for, and that were refused
	written, bytesWritten, refused atomic.Uint64
	badSource                      atomic.Pointer[source.BadRecordError]
	bytesTo                        []atomic.Uint64 // by builder unit

	closing  sync.Once
	closeErr error // of closing

	// where the reader and the conductor wait
	forSource, forRoom, forTokens stopwatch.Stopwatch

	mu       sync.Mutex // guards what follows
	changed  *sync.Cond // the order has changed, or ctx is over
	order    Order
	ring     Ring // the order, where it is one; else nil
	ended    bool // no more cycles will come
	failed   bool
	closed   bool
	waits    Waits
	timeline timeline
	grants   time.Duration // time waiting for grants in all
	began    time.Time     // first phase
	over     time.Time     // last phase
}

// maxMicros is the largest time a histogram holds: one hour.
const maxMicros = int64(time.Hour / time.Microsecond)

// New makes a readout unit. Next come Start, its handlers Grant and Completed, then Close.
func New(cfg Config) *Unit {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	u := &Unit{
		cfg: cfg, byRank: map[int]int{}, bytesTo: make([]atomic.Uint64, len(cfg.BURanks)), order: cfg.Order, waits: newWaits(cfg.RU, cfg.RUs), timeline: newTimeline(cfg.Timeline),
	}
	u.ring, _ = cfg.Order.(Ring)
	for i, rank := range cfg.BURanks {
		u.byRank[rank] = i
	}
	if cfg.Rooms != nil {
		u.quota = newQuota(&cfg)
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
	if u.quota != nil {
		stages = []func() error{u.readMany, u.serve}
	}
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
}

// read fills the retention and tells the scheduler how far it has come.
func (u *Unit) read() error {
	var b source.Block
	var up tagnet.Update
	for {
		u.forRoom.Start()
		dst, err := u.cfg.Retention.Reserve(u.ctx, u.cfg.Source.MaxBlock())
		u.forRoom.Stop()
		if err != nil {
			return err
		}
		u.forSource.Start()
		err = u.cfg.Source.Next(u.ctx, dst, &b)
		u.forSource.Stop()
		if err != nil {
			return u.inputOver(up, err)
		}
		if err := u.cfg.Retention.Commit(&b); err != nil {
			return err
		}
		u.mfps.Add(uint64(len(b.MFPs)))
		up.Read, up.Events = b.MEP+1, up.Events+uint64(b.Events)
		if more, err := u.tell(up); err != nil || !more {
			return err
		}
	}
}

// inputOver takes the error that ended the input. Bad input and a proper end are told to the scheduler; any other is returned.
func (u *Unit) inputOver(up tagnet.Update, err error) error {
	var bad *source.BadRecordError
	switch {
	case errors.As(err, &bad):
		// What was read before it is still to be built; the run learns of it from BadRecord.
		u.badSource.Store(bad)
		u.cfg.Log.Warn("the input is bad, what came before it is built", "err", bad)
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

// dispatch takes tokens, announces them, and frees what is released.
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
		u.cfg.Retention.Release(t.Released, t.HeldUp)
		u.mu.Lock()
		u.order.Release(needed(&t))
		u.mu.Unlock()
		u.withdraw(t.Withdrawn)
		for i := range t.Len() {
			u.mu.Lock()
			err := u.order.Cycle(&t.Batch, i)
			u.mu.Unlock()
			if err != nil {
				return err
			}
			if err := u.announce(&t.Batch, i); err != nil {
				return err
			}
		}
		if err := u.launch(&t); err != nil {
			return err
		}
		if t.Len() > 0 {
			u.mu.Lock()
			u.changed.Broadcast()
			u.mu.Unlock()
		}
	}
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

// announce tells each builder unit of a cycle what this unit has for it, the one that it comes to first at first.
func (u *Unit) announce(b *tagnet.Batch, cycle int) error {
	for _, at := range u.order.Visits() {
		if at == Dummy {
			continue
		}
		t, ok := b.Token(cycle, at)
		if !ok {
			continue
		}
		u.tokens.Add(1)
		if u.void(b.First+uint64(cycle), at) {
			continue
		}
		if err := u.announceTo(at, &t); err != nil {
			return fmt.Errorf("announcing MEP %d to builder unit %d: %w", t.MEP, at, err)
		}
	}
	return nil
}

// announceTo tells one builder unit the sizes for one token, in as many messages as it takes.
func (u *Unit) announceTo(bu int, t *tagnet.Token) error {
	block, _, err := u.cfg.Retention.Get(t.MEP)
	if err != nil {
		return err
	}
	n := len(block.MFPs)
	if n == 0 || n > event.MaxMFPs {
		return fmt.Errorf("the source gave %d MFPs, a MEP holds between 1 and %d", n, event.MaxMFPs)
	}
	a := &u.announcement
	a.RU, a.Streams, a.Slot, a.Attempt, a.MEP = uint16(u.cfg.RU), uint16(n), t.Slot, uint32(t.Attempt), t.MEP
	for first := 0; first < n; first += len(a.Entries) {
		a.First, a.Entries = uint16(first), a.Entries[:0]
		for _, m := range block.MFPs[first:min(n, first+placing.MaxEntries)] {
			a.Entries = append(a.Entries, placing.Entry{Size: uint32(m.Size), CRC: m.CRC})
		}
		u.message = a.Append(u.message[:0])
		if err := u.cfg.Network.Signal(u.cfg.BURanks[bu], u.message); err != nil {
			return u.bear(bu, err)
		}
	}
	return nil
}

// Grant takes a builder unit's signal of kind placing.KindGrant. An error says what was wrong with it; it had no effect.
func (u *Unit) Grant(rank int, payload []byte) error { return u.count(u.grant(rank, payload)) }

// count counts what was refused.
func (u *Unit) count(err error) error {
	if err != nil {
		u.refused.Add(1)
	}
	return err
}

func (u *Unit) grant(rank int, payload []byte) error {
	var g placing.Grant
	if err := g.Parse(payload); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	bu, ok := u.byRank[rank]
	switch {
	case !ok:
		return fmt.Errorf("rank %d, which is no builder unit, granted a window for MEP %d", rank, g.MEP)
	case u.quota != nil:
		return fmt.Errorf("builder unit %d granted a window for MEP %d, where all are granted beforehand", bu, g.MEP)
	}
	if err := u.order.Grant(bu, &g); err != nil {
		return err
	}
	u.changed.Broadcast()
	return nil
}

// Completed takes the outcome of a write, told by the endpoint.
func (u *Unit) Completed(rank int, cookie uint64, err error) {
	if u.quota != nil {
		u.burstCompleted(rank, cookie, err)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if bu, ok := u.byRank[rank]; ok && u.order.Lost(bu) {
		return // it has been given up, and so has its memory
	}
	t, wrong := u.order.Complete(cookie)
	if wrong != nil {
		u.failLocked(errors.Join(wrong, err))
		return
	}
	u.cfg.Retention.Return(t.MEP)
	if t.Stage == Left {
		u.settle()
		if err != nil {
			u.leftFailed.Add(1)
			return
		}
	}
	if err != nil {
		u.failLocked(fmt.Errorf("writing MEP %d to slot %d of builder unit %d: %w", t.MEP, t.Slot, t.BU, err))
		return
	}
	u.timeline.sent(int(t.BU), t.MEP)
	u.written.Add(1)
	u.wrote(int(t.BU), uint64(t.Size))
	u.changed.Broadcast()
}

// wrote counts bytes that have arrived at a builder unit.
func (u *Unit) wrote(bu int, bytes uint64) {
	u.bytesWritten.Add(bytes)
	u.bytesTo[bu].Add(bytes)
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

// Close ends the unit and its source, and frees what it kept. Whoever calls it while it is under way waits too, and has the same error:
// the unit's memory may be taken away after it, and not before.
func (u *Unit) Close() error {
	u.closing.Do(func() { u.closeErr = u.end() })
	return u.closeErr
}

func (u *Unit) end() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.cancel(ErrClosed)
	if u.quota != nil {
		u.cfg.Rooms.Close()
	} else {
		u.cfg.Retention.Close()
	}
	_ = u.cfg.Barrier.Close()
	u.wg.Wait()
	return u.cfg.Source.Close()
}
