package readoutunit

// Pipeline of an MFP, with the goroutine of each stage:
//
//	1 read      (sequential: reader)       copies many MEPs at a time from the source into retention buffers, every
//	                                       byte once; reports to the scheduler how far it has come
//	2 dispatch  (sequential: dispatcher)   takes tokens; where windows are granted for each MEP, sends its sizes and CRCs
//	                                       to the builder unit
//	3 HandleGrant (parallel: receivers)    notes the window to write to, under mu
//	4 conduct   (sequential: conductor)    in its phase, writes a burst from the buffers: one write of many small parts,
//	                                       or one for each large part
//	5 HandleCompletion (parallel: receivers)  notes the burst's outcome; fence and barrier go on
//	6 release   (sequential: dispatcher)   frees the buffers of MEPs that have their outcome everywhere
//	7 forward   (under mu)                 in a tag ring: passes a tag that this unit has finished with on to the next
//	                                       unit, or back to the scheduler
//
// Each stage steps the core under mu, and carries out the actions. With pre-granted windows the dispatcher requests
// them once, and there is no stage 3: per MEP the unit only takes its token and puts its part into a burst.

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
	"ringlet/event/placing"
	"ringlet/internal/stopwatch"
	"ringlet/source"
	"ringlet/source/live"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
	"ringlet/transport/link"
)

// Network is what a readout unit needs of its endpoint.
type Network interface {
	WriteMany(rank int, pieces []link.Piece, cookie uint64) error
	// RelocateWrite moves the pieces of a write under way to other memory. It returns false if no such write is under way,
	// or not yet.
	RelocateWrite(rank int, cookie uint64, to func(piece int) []byte) bool
	Signal(rank int, payload []byte) error
}

// Scheduler is what a readout unit needs of TagNet.
type Scheduler interface {
	// Update reports which MEPs have been read; it does not wait.
	Update(tagcore.Update) error
	// ReportReach reports how far live data reach, in a run in which the scheduler decides the events of a MEP; it does
	// not wait.
	ReportReach(tagcore.Reach) error
	// ReportStop reports that the unit has assigned no MEP from mep on, and that it must be told the end of the run. It
	// does not wait.
	ReportStop(mep uint64) error
	// ReportCleared reports that all tags are dropped, and no write is under way, since the first count absences of
	// readout units. It does not wait.
	ReportCleared(count uint64) error
	// Next waits for tokens; io.EOF: none will follow.
	Next(ctx context.Context) (tagnet.Tokens, error)
	// ConfirmExclusion reports that nothing of an exclusion is under way here any more, by its place among all in
	// Tokens.Withdrawals. It does not wait.
	ConfirmExclusion(exclusion uint64) error
}

// Config of a Unit.
type Config struct {
	CoreConfig
	BURanks []int // rank of each builder unit, by index
	Source  source.Source
	// ToleratesBULoss says, by builder unit, whether the run tolerates the loss of the link to it. Nil: no loss.
	ToleratesBULoss []bool
	// ToleratesReadoutLoss says that the run may go on without readout units: the unit waits longer for one that does not
	// come to the barrier, until the scheduler reports that it is gone.
	ToleratesReadoutLoss bool
	Network              Network
	Scheduler            Scheduler
	Barrier              *barrier.Barrier
	// ForwardTag passes a tag on to the next readout unit of the tag ring, or if next is −1 back to the scheduler;
	// io.EOF: the scheduler wants no more tags. It is called by one goroutine at a time, and must not wait. Nil in other
	// disciplines.
	ForwardTag func(next int, t *tagcore.Tag) error
	// OnTriggered is called when MEPs below that number have tokens, so that their events are triggered. It must not wait.
	// Nil: ignored.
	OnTriggered func(below uint64)
	// Fail is called at most once, when the unit cannot go on. It must not call Close.
	Fail func(error)
	Log  *slog.Logger
}

// Unit is a readout unit: the shell around a Core, whose actions the goroutines of the pipeline above carry out.
type Unit struct {
	// immutable after New
	cfg      Config
	buByRank map[int]int // builder unit's index by rank
	ctx      context.Context
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup
	drained  chan struct{} // closed when all tokens are served and all writes have their outcomes

	source source.BatchSource
	live   *source.Live // the source if it is live; else nil

	announceMu   sync.Mutex // taken without mu; guards the scratch below
	announcement placing.Announce
	message      []byte

	// atomic
	mfpsRead     atomic.Uint64
	badRecord    atomic.Pointer[source.BadRecordError]
	inputFailure atomic.Pointer[live.EndError]

	closing  sync.Once
	closeErr error // of closing

	sourceTime, bufferWait stopwatch.Stopwatch               // of the reader
	waits                  [WaitLink + 1]stopwatch.Stopwatch // of the conductor

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond // the core may have an action for a goroutine that waits, or ctx is over
	freed   *sync.Cond // the buffers that the reader waits for are free, or ctx is over
	core    *Core
	failed  bool
	actions []Action    // scratch
	alarm   *time.Timer // wakes the conductor
	alarmed bool        // alarm is set
}

// New makes a readout unit. Then come Start, the handlers HandleGrant and HandleCompletion, and Close.
func New(cfg Config) *Unit {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	u := &Unit{
		cfg:      cfg,
		buByRank: map[int]int{},
		drained:  make(chan struct{}),
		source:   source.AsBatchSource(cfg.Source, cfg.Streams),
		core:     newCore(cfg.CoreConfig),
	}
	u.live, _ = cfg.Source.(*source.Live)
	for i, rank := range cfg.BURanks {
		u.buByRank[rank] = i
	}
	u.changed, u.freed = sync.NewCond(&u.mu), sync.NewCond(&u.mu)
	u.alarm = time.AfterFunc(time.Hour, u.ring)
	u.alarm.Stop()
	u.ctx, u.cancel = context.WithCancelCause(context.Background())
	context.AfterFunc(u.ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.changed.Broadcast()
		u.freed.Broadcast()
	})
	return u
}

// Start begins to read and to serve tokens. Grants may come before it returns.
func (u *Unit) Start() {
	for _, f := range []func() error{u.runReader, u.runDispatcher, u.runConductor} {
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

// ring wakes the conductor after the time of its action.
func (u *Unit) ring() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.alarmed = false
	u.changed.Broadcast()
}

// step passes an input to the core, and carries out the actions that are done at once. It returns the others, in the
// memory of out. An error says that the input was refused, or that the unit cannot go on. mu is held, and step never
// waits.
func (u *Unit) step(in *Input, out []Action) (rest []Action, err error) {
	out = u.core.Step(in, out[:0])
	rest = out[:0]
	for i := 0; i < len(out); i++ {
		switch a := out[i]; a.Kind {
		case FreeBuffers:
			if u.cfg.Retention.freeBelow(a.Number) {
				u.freed.Signal()
			}
			u.live.NoteRetained(u.cfg.Retention.used())
		case RelocateWrite:
			if u.cfg.Network.RelocateWrite(u.cfg.BURanks[a.BU], a.Number, a.Move) {
				out = u.core.Step(&Input{Kind: WriteRelocated, Cookie: a.Number}, out)
			}
		case ChangeMembers:
			err = errors.Join(err, u.cfg.Barrier.ChangeMembers(a.Absence.FirstCycle, a.Members, !a.Absence.Rejoined))
			u.cfg.Log.Info("the readout units of the run have changed", "readout_unit", a.Absence.RU, "back",
				a.Absence.Rejoined, "from_mep", a.Absence.FirstMEP)
		case ReportTriggered:
			if u.cfg.OnTriggered != nil {
				u.cfg.OnTriggered(a.Number)
			}
		case ForwardTag:
			if wrong := u.forwardTag(a.Count, a.Tag); wrong != nil {
				err = wrong
				u.failLocked(err)
			}
		case ReportCleared:
			_ = u.cfg.Scheduler.ReportCleared(a.Number) // as above
		case ReportStop:
			_ = u.cfg.Scheduler.ReportStop(a.Number) // the owner of the stream learns of an error
		case ConfirmExclusion:
			u.confirmExclusion(&a)
		case Drained:
			close(u.drained)
		case Refuse:
			err = a.Err
		case Fail:
			err = a.Err
			u.failLocked(err)
		default:
			rest = append(rest, a)
		}
	}
	return rest, err
}

// notify steps an input whose actions are all done at once, and wakes the goroutines that wait for the core.
func (u *Unit) notify(in *Input) (err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.actions, err = u.step(in, u.actions)
	u.changed.Broadcast()
	return err
}

// confirmExclusion reports that nothing of an exclusion is under way here any more: to the builder unit, after
// everything sent to it before, and to the scheduler. An error needs no handling here: the owners of the link and of
// the stream learn of it.
func (u *Unit) confirmExclusion(a *Action) {
	var message [placing.QuiescedSize]byte
	if u.cfg.Network.Signal(u.cfg.BURanks[a.BU], placing.AppendQuiesced(message[:0], uint32(a.Count))) == nil {
		_ = u.cfg.Scheduler.ConfirmExclusion(a.Number)
	}
}

// forwardTag passes on a tag. io.EOF is no failure: the run was abandoned.
func (u *Unit) forwardTag(next int, t *tagcore.Tag) error {
	if err := u.cfg.ForwardTag(next, t); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("passing on the tag of MEP %d: %w", t.MEP, err)
	}
	return nil
}

// HandleGrant applies a builder unit's signal of kind placing.KindGrant. An error says what is wrong with the signal,
// which then had no effect.
func (u *Unit) HandleGrant(rank int, payload []byte) error {
	in := Input{Kind: GrantCame}
	err := in.Grant.Parse(payload)
	var ok bool
	if in.BU, ok = u.buByRank[rank]; err == nil && !ok {
		err = fmt.Errorf("rank %d granted a window for MEP %d, but holds no builder unit", rank, in.Grant.MEP)
	}
	return u.notifyParsed(&in, err)
}

// notifyParsed steps a decoded message, or the error of one that was refused.
func (u *Unit) notifyParsed(in *Input, err error) error {
	if err != nil {
		return u.notify(&Input{Kind: MessageRefused, Err: err})
	}
	return u.notify(in)
}

// HandlePreGrants applies a builder unit's signal of kind placing.KindPreGrants. An error says what is wrong with the
// signal, which then had no effect.
func (u *Unit) HandlePreGrants(rank int, payload []byte) error {
	in := Input{Kind: PreGrantsCame, PreGrants: &placing.PreGrants{}}
	err := in.PreGrants.Parse(payload)
	var ok bool
	if in.BU, ok = u.buByRank[rank]; !ok {
		err = fmt.Errorf("rank %d granted windows for all MEPs, but holds no builder unit", rank)
	}
	return u.notifyParsed(&in, err)
}

var errNoTagRing = errors.New("a tag came, but the discipline has no tags")

// HandleTag applies a signal of kind placing.KindTag from a readout unit. An error says what is wrong with the signal,
// which then had no effect.
func (u *Unit) HandleTag(ru int, payload []byte) error {
	in := Input{Kind: TagCame}
	var buf [placing.MaxTagWords]uint64
	words, err := placing.ParseTag(&buf, payload)
	if err == nil {
		t, rest, ok := tagcore.ParseTag(words)
		if in.RU, in.Tag = ru, t; !ok || len(rest) > 0 {
			err = fmt.Errorf("%w: %d words that are no tag", placing.ErrBadMessage, len(words))
		}
	}
	return u.notifyParsed(&in, err)
}

// HandleRejected applies the decision unit's message that builder units rejected events events from first on. It does
// not wait.
func (u *Unit) HandleRejected(first, events uint64) {
	_ = u.notify(&Input{Kind: EventsRejected, First: first, Events: events})
}

// HandleCompletion applies the outcome of a write; the endpoint calls it.
func (u *Unit) HandleCompletion(rank int, cookie uint64, err error) {
	bu, ok := u.buByRank[rank]
	if !ok {
		bu = Dummy
	}
	_ = u.notify(&Input{Kind: WriteCompleted, BU: bu, Cookie: cookie, Err: err, Now: time.Now()}) // it fails the unit
}

var errLinkDown = errors.New("the link is down")

// HandleLinkDown applies that the link to a rank is down. It reports whether the unit can go on without the rank.
func (u *Unit) HandleLinkDown(rank int) bool {
	bu, ok := u.buByRank[rank]
	return ok && u.tolerateLoss(bu, errLinkDown) == nil
}

// tolerateLoss marks a builder unit as lost after an error of its link, or returns the error if the run does not
// tolerate that.
func (u *Unit) tolerateLoss(bu int, err error) error {
	if bu >= len(u.cfg.ToleratesBULoss) || !u.cfg.ToleratesBULoss[bu] {
		return err
	}
	return u.notify(&Input{Kind: BULost, BU: bu})
}

// Drain waits until every token is served and every write has its outcome, or until ctx ends.
func (u *Unit) Drain(ctx context.Context) error {
	select {
	case <-u.drained:
		return nil
	case <-u.ctx.Done():
		return context.Cause(u.ctx)
	case <-ctx.Done():
	}
	s := u.Stats()
	return fmt.Errorf("%d writes of the readout unit have no outcome: %w", s.OpenTransfers+s.OrphanedWrites,
		context.Cause(ctx))
}

// Timeline returns the last steps, oldest first.
func (u *Unit) Timeline() []TimelineStep {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.core.Timeline()
}

// Stats returns the counters so far.
func (u *Unit) Stats() Stats {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.core.Stats()
	s.RetainedBlocks, s.RetainedBytesHigh = u.cfg.Retention.usage()
	s.Source, s.MFPsRead = u.cfg.Source.Stats(), u.mfpsRead.Load()
	s.TokenWait, s.GrantWait = u.waits[WaitToken].Total(), u.waits[WaitGrant].Total()
	s.SourceTime, s.BufferWait = u.sourceTime.Total(), u.bufferWait.Total()
	if u.badRecord.Load() != nil {
		s.BadRecords = 1
	}
	if u.inputFailure.Load() != nil {
		s.InputFailed = 1
	}
	s.Live = u.liveStats()
	s.BusyStats = u.live.BusyStats()
	for _, in := range s.Live {
		if in.Failed {
			s.Broken++
		}
	}
	return s
}

func (u *Unit) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failLocked(err)
}

func (u *Unit) failLocked(err error) {
	if u.failed || u.ctx.Err() != nil {
		return
	}
	u.failed = true
	u.wg.Go(func() { u.cfg.Fail(err) })
}

// Close ends the unit and its source, and frees what they kept. A second caller waits too, and gets the same error: the
// unit's memory may be taken away only after Close.
func (u *Unit) Close() error {
	u.closing.Do(func() { u.closeErr = u.shutDown() })
	return u.closeErr
}

func (u *Unit) shutDown() error {
	u.mu.Lock() // the unit reports no failure from now on
	u.cancel(errClosed)
	u.alarm.Stop()
	u.mu.Unlock()
	_ = u.cfg.Barrier.Close()
	u.wg.Wait()
	return u.cfg.Source.Close()
}
