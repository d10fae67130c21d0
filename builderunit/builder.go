package builderunit

// Pipeline of a MEP:
//
//	1 Announce    (parallel: a link's receiver each)    sizes into the assembler, under mu
//	2 request     (the receiver that brought the last)  windows granted and sent to the readout units, as many as Pull
//	                                                    lets, under mu
//	3 PlacedMany  (parallel: receivers)                 many notices a call under mu, the next parts asked for; what is
//	                                                    whole joins the batch
//	4 decide      (sequential: finisher)                of a region of interest: revoked, verified, Decide; then on with
//	                                                    2, or over (region.go)
//	5 finish      (sequential: finisher)                of each MEP of a batch: grants revoked, verified, header
//	                                                    written, sink
//	6 release     (sequential: finisher)                of the batch: slots free under mu, reported to the scheduler
//	                                                    (outcomes.go)
//
// Where windows are pre-granted, a readout unit gets them once, by AnswerWindowRequest, and there are neither 1, 2 and
// 4 nor anything to revoke. What the sink has no time for leaves at 3, where there is a backlog (outcomes.go).
//
// The MFPs are written once, by the network, where they stay. In place of gaps, which pre-granted windows leave between
// them, a sink that keeps MEPs is given a copy without. Nothing is allocated per MEP.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/builderunit/tap"
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/filter"
	"ringlet/shmem"
	"ringlet/tagnet/core"
	"ringlet/transport"
)

// A MEPResult is what became of a MEP, as the scheduler hears it, with what others want to know. Its slot is free
// again; its events are those of a MEP that was built or rejected (0 if no part of it came).
type MEPResult struct {
	core.Feedback

	FirstEvent   uint64    // the id of its first event, if it was built
	PartsMissing bool      // it was built without what readout units that were gone had of it
	CompletedAt  time.Time // when the last byte was in place, of all that are finished together
	// ReportHeld says that it need not be reported to the scheduler yet: another result will come that is not held.
	ReportHeld bool
}

// Signaler sends a short message to a rank.
type Signaler interface {
	Signal(rank int, payload []byte) error
}

// Config of a Builder.
type Config struct {
	Slots    *shmem.Slots // every slot Free
	Table    *shmem.Table
	Signaler Signaler
	RURanks  []int // rank of each readout unit, by index
	// Layout, if not nil, is what each readout unit owns of every slot, by pre-granted windows: parts come
	// without announcement or grant. Nil: sizes are announced and windows granted for every MEP.
	Layout *placing.Layout
	// Pull says how parts are asked for where they are announced. Zero: all at once.
	Pull Pull
	// Decide is asked, of a MEP whose region of interest is in place, whether the rest is to be fetched. It answers by
	// Region.Decide, or later by Builder.ApplyDecision: once in any case. The finisher calls it, so it is one at a time,
	// and what is whole waits while it does; ctx is done when the unit is closed. Needed where Pull has RegionUnits.
	Decide func(ctx context.Context, r *Region) error
	// Division is the sources of each readout unit, and MaxEventsPerMEP the most events of a MEP: what is to be made for a
	// readout unit that is gone. Zero: none may be.
	Division        placing.Division
	MaxEventsPerMEP int
	// Packing is the number of events in a MEP (the last may have fewer), by which a MEP proves its number where
	// windows are pre-granted: the first event id is the number times that. Zero: the ids are not checked.
	Packing int
	Run     uint32
	Verify  Verify
	Pattern *pattern.Pattern // rule of the content; nil where there is none
	Sink    sink.Sink
	Tap     *tap.Tap // is offered the MEPs that are built, if somebody looks; nil: nobody does
	// Durable says that a MEP counts as built only when Sink.Flush has made it safe: that is reported to the scheduler
	// then, and not before.
	Durable bool
	// MaxWaitingMEPs is how many whole MEPs may wait for the sink, the one that it has included; those that come then are
	// discarded. Zero: all of them wait, and their slots with them.
	MaxWaitingMEPs int
	Suspension     Suspension
	// OnResults is told what became of MEPs, each once, one call at a time; it may block. The results are valid until it
	// returns.
	OnResults func([]MEPResult) error
	// Tolerates is told of data that do not fit, and says whether the unit goes on without that readout unit: then its
	// part is taken for missing. It may be called with a lock held, so it must not call the unit. Nil: it does not.
	Tolerates func(*DataError) bool
	// Fail is called at most once, when the unit cannot go on. It must not call Close.
	Fail func(error)
	Log  *slog.Logger
}

// Builder is a builder unit: a pure Assembler, slots in shared memory, and a goroutine that finishes MEPs.
type Builder struct {
	// immutable after New
	cfg      Config
	segment  shmem.SegmentID
	ruByRank map[int]int     // readout unit's index by rank
	ctx      context.Context // over when the unit is closed
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	wakeFinisher chan struct{} // of one place: the batch is not empty
	wakeReturner chan struct{} // of one place: there are MEPs that are given up

	finisherDone chan struct{} // closed when the finisher has ended
	commit       committer     // without wake where outcomes need no flush

	closing  sync.Once
	closeErr error // of closing

	finisherGate sync.Mutex // held by the finisher while it works on MEPs, and by the suspender

	finisher finisher

	reportMu sync.Mutex // held while results are reported

	mu                 sync.Mutex       // guards what follows
	asm                *Assembler       // of a slot that is whole, the finisher also reads it without mu
	completedSlots     []SlotProgress   // what is complete, and not the finisher's yet
	completedAt        time.Time        // when the last of it became so
	returns            []MEPResult      // MEPs that are given up, and not reported yet
	announce           placing.Announce // scratch
	message            []byte           // scratch
	waitingMEPs        int              // whole MEPs that wait for the sink, the one that it has included
	quiescedExclusions []uint32         // by readout unit: exclusions of this unit of which nothing comes from it any more
	// by slot: of a filter on the events of what lies there, by its region; nil where no region is judged. Of a slot that
	// is whole the finisher's.
	verdictsBySlot [][]filter.Verdict
	failed         bool
	closed         bool
	// messages and placements that do not parse, come from ranks with no business here, or come after Close
	rejectedMessages uint64
	finalSlots       shmem.SlotStats // once closed: the slots may be gone

	missingByRU []MissingCounts // by readout unit

	suspensions uint64
	suspended   time.Duration
}

// New makes a builder unit, exports its slots to the readout units and offers every slot. Next come its handlers
// Announce, AnswerWindowRequest and PlacedMany, then Close.
func New(cfg Config) (*Builder, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := newBuilder(cfg)
	if err := b.makeAssembler(); err != nil {
		return nil, err
	}
	if err := b.exportSlots(); err != nil {
		return nil, err
	}
	b.start()
	return b, nil
}

// newBuilder makes a builder unit that has neither an assembler nor a segment yet.
func newBuilder(cfg Config) *Builder {
	n := cfg.Slots.Len()
	b := &Builder{
		cfg:                cfg,
		ruByRank:           map[int]int{},
		quiescedExclusions: make([]uint32, len(cfg.RURanks)),
		missingByRU:        make([]MissingCounts, len(cfg.RURanks)),
		finisherDone:       make(chan struct{}),
		wakeFinisher:       make(chan struct{}, 1),
		wakeReturner:       make(chan struct{}, 1),
		completedSlots:     make([]SlotProgress, 0, n),
	}
	b.commit.Builder = b
	b.finisher = finisher{
		Builder: b,
		verify:  verifier{depth: cfg.Verify, pattern: cfg.Pattern},
		spare:   make([]SlotProgress, 0, n),
		results: make([]MEPResult, 0, maxBatchMEPs),
	}
	for i, rank := range cfg.RURanks {
		b.ruByRank[rank] = i
	}
	_, b.finisher.sinkDiscards = cfg.Sink.(*sink.Discard)
	if lender, ok := cfg.Sink.(sink.Lender); ok && lender.Lends() && cfg.Layout == nil {
		b.finisher.lender = lender
	}
	return b
}

// makeAssembler gives the unit the assembler that its configuration asks for: with pre-granted windows, or with
// ones that are granted for each MEP.
func (b *Builder) makeAssembler() error {
	cfg := &b.cfg
	n := cfg.Slots.Len()
	switch units := cfg.Division.Units(); {
	case units > 0 && units != len(cfg.RURanks):
		return fmt.Errorf("the configuration gives the sources of %d readout units, and there are %d", units,
			len(cfg.RURanks))
	case cfg.Layout != nil:
		if err := b.makePreGrantedAssembler(); err != nil {
			return err
		}
	case len(cfg.Pull.RegionUnits) > 0 && cfg.Decide == nil:
		return errors.New("a region of interest is set (roi), and nothing judges it: give it a share, or set a filter")
	default:
		b.asm = NewAssembler(len(cfg.RURanks), n, cfg.Slots.SlotSize(), cfg.Pull)
		if len(cfg.Pull.RegionUnits) > 0 {
			b.verdictsBySlot = make([][]filter.Verdict, n)
		}
	}
	b.asm.absent.missingMFPSize = uint32(event.MFPHeaderSize(cfg.MaxEventsPerMEP))
	if cfg.Division.Units() > 0 {
		b.asm.absent.sources = cfg.Division.Counts()
	}
	return nil
}

// exportSlots opens the slots to the readout units, and offers all of them. After an error nothing is exported or
// offered.
func (b *Builder) exportSlots() (err error) {
	slots, table := b.cfg.Slots, b.cfg.Table
	pages := (len(slots.Segment().Bytes()) + shmem.PageSize - 1) / shmem.PageSize
	var rules []shmem.PageRule
	for _, rank := range b.cfg.RURanks {
		rules = append(rules, shmem.PageRule{
			PageCount: pages,
			Peer:      shmem.Peer(rank),
			Access:    shmem.AccessNwrite,
		})
	}
	if b.segment, err = table.ExportSegment(slots.Segment(), rules...); err != nil {
		return fmt.Errorf("exporting the slots: %w", err)
	}
	for i := range slots.Len() {
		if err := slots.Offer(i); err != nil {
			return errors.Join(err, b.reclaimSlots(i), table.Withdraw(b.segment))
		}
	}
	for ru := 0; b.asm.isPreGranted && ru < len(b.cfg.RURanks); ru++ {
		if err := b.preGrant(ru); err != nil {
			b.revokeAll()
			return errors.Join(err, b.reclaimSlots(slots.Len()), table.Withdraw(b.segment))
		}
	}
	return nil
}

// start begins the goroutines of the unit, which end with its context.
func (b *Builder) start() {
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.wg.Go(func() {
		defer close(b.finisherDone)
		b.finisher.run()
	})
	if b.cfg.Durable {
		b.commit.wake = make(chan struct{}, 1)
		b.wg.Go(b.commit.run)
	}
	if b.cfg.MaxWaitingMEPs > 0 || b.verdictsBySlot != nil {
		b.wg.Go(b.runReturner)
	}
	if b.cfg.Suspension.Duration > 0 {
		b.wg.Go(func() { b.cfg.Suspension.run(b) })
	}
}

// HandleAnnounce takes a readout unit's signal of kind placing.KindAnnounce. An error says what was wrong with it; it
// had no effect.
func (b *Builder) HandleAnnounce(rank int, payload []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return b.refuse(errClosed)
	}
	if b.asm.isPreGranted {
		return b.refuse(fmt.Errorf("rank %d announced the sizes of a MEP, and this builder unit has granted its windows for "+
			"all MEPs: run the same release on all nodes, and configure them again", rank))
	}
	if err := b.announce.Parse(payload); err != nil {
		return b.refuse(err)
	}
	m := &b.announce
	if ru, ok := b.ruByRank[rank]; !ok || ru != int(m.RU) {
		return b.refuse(fmt.Errorf("rank %d announced MEP %d in the name of readout unit %d", rank, m.MEP, m.RU))
	}
	if b.asm.absent.lacksPart(int(m.RU), m.MEP) {
		b.asm.stats.LateParts++
		return nil
	}
	ready, err := b.asm.Announce(m)
	if err != nil {
		var refused *announceError
		if errors.As(err, &refused) {
			if bad := b.announceDataError(refused); bad != nil && !b.tolerates(bad) {
				b.failLocked(bad)
			}
			return err
		}
		if err = b.handleOversized(m, err); err != nil {
			b.failLocked(err)
			return nil
		}
		ready = true
	}
	if !ready {
		return nil
	}
	if err := b.cfg.Slots.Fill(int(m.Slot)); err != nil {
		b.failLocked(err)
		return nil
	}
	before := len(b.completedSlots)
	b.submitLocked(before)
	return nil
}

// submitLocked asks for further parts, and hands what was appended to the batch, from an index on, to the finisher.
func (b *Builder) submitLocked(from int) {
	b.requestPartsLocked()
	if len(b.completedSlots) > from {
		b.completedAt = time.Now()
		b.shedLocked(from)
		wakeUp(b.wakeFinisher)
	}
}

// refuse counts a message that is of no use, and returns why.
func (b *Builder) refuse(why error) error {
	b.rejectedMessages++
	return why
}

// requestPartsLocked asks for parts, until nothing is to be asked for now.
func (b *Builder) requestPartsLocked() {
	for slot, ru, ok := b.asm.NextRequest(); ok; slot, ru, ok = b.asm.NextRequest() {
		if b.asm.absent.lacksPart(ru, b.asm.slots[slot].mep) {
			b.completedSlots = b.asm.skipMissingPart(slot, b.completedSlots)
			continue
		}
		if err := b.grantWindow(slot, ru); err != nil {
			b.failLocked(err)
			return
		}
	}
}

// grantWindow opens a readout unit's part of a slot and sends it the window.
func (b *Builder) grantWindow(slot, ru int) error {
	mep, rank := b.asm.SlotMEP(slot), b.cfg.RURanks[ru]
	ref, size, err := b.openWindow(slot, ru)
	if err != nil {
		return fmt.Errorf("MEP %d: %w", mep.MEP, err)
	}
	g := placing.Grant{
		Slot:    uint32(slot),
		Attempt: mep.Attempt,
		MEP:     mep.MEP,
		Window:  ref.Window,
		Gen:     ref.Gen,
		Length:  uint32(size),
	}
	b.message = g.Append(b.message[:0])
	if err := b.cfg.Signaler.Signal(rank, b.message); err != nil {
		return fmt.Errorf("granting MEP %d to readout unit %d: %w", mep.MEP, ru, err)
	}
	return nil
}

// openWindow opens a readout unit's part of a slot.
func (b *Builder) openWindow(slot, ru int) (ref shmem.Ref, size int, err error) {
	off, size := b.asm.PartRange(slot, ru)
	ref, err = b.cfg.Table.Grant(shmem.Peer(b.cfg.RURanks[ru]), b.segment, b.cfg.Slots.Offset(slot)+off, size,
		shmem.AccessNwrite)
	if err == nil {
		b.asm.RecordGrant(slot, ru, ref)
	}
	return ref, size, err
}

// Placed is PlacedMany of one.
func (b *Builder) Placed(rank int, p transport.Placement) {
	b.PlacedMany(rank, []transport.Placement{p})
}

// PlacedMany takes the notice that a readout unit's bytes are in place. Each Imm is a placing.Immediate.
func (b *Builder) PlacedMany(rank int, ps []transport.Placement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ru, ok := b.ruByRank[rank]
	if !ok || b.closed {
		b.rejectedMessages += uint64(len(ps))
		return
	}
	before := len(b.completedSlots)
	b.completedSlots = b.asm.ApplyPlacements(ru, ps, b.completedSlots)
	b.submitLocked(before)
}

func (b *Builder) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failLocked(err)
}

// failLocked reports the first failure, on a goroutine of its own: the caller may hold a link's receiver.
func (b *Builder) failLocked(err error) {
	if b.failed || b.closed {
		return
	}
	b.failed = true
	b.wg.Go(func() { b.cfg.Fail(err) })
}
