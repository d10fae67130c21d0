package builderunit

// Pipeline of a MEP, with the goroutine of each stage:
//
//	1 HandleAnnounce (parallel: a link's receiver each)  enters the sizes into the assembler, under mu
//	2 request     (the receiver of the last sizes)      grants windows and sends them to the readout units, as many as
//	                                                    Pull allows, under mu
//	3 PlacedMany  (parallel: receivers)                 applies many placements a call, under mu, and requests the next
//	                                                    parts; complete MEPs and regions join the batch
//	4 decide      (sequential: finisher)                for a region of interest: revokes, verifies, calls Decide; then
//	                                                    2, or the MEP is given up (region.go)
//	5 finish      (sequential: finisher)                for each MEP of a batch: revokes grants, verifies, writes the
//	                                                    header, hands the MEP to the sink
//	6 release     (sequential: finisher)                frees the slots of the batch under mu, and reports the MEPs to
//	                                                    the scheduler (outcomes.go)
//
// With pre-granted windows a readout unit gets its windows once, by AnswerWindowRequest: there are no stages 1, 2 and
// 4, and no window to revoke. A MEP that the sink has no time for leaves after stage 3, if MaxWaitingMEPs is set
// (outcomes.go).
//
// The network writes each MFP once, where it stays. Pre-granted windows leave gaps between MFPs: a sink that keeps MEPs
// gets a copy without gaps. Nothing is allocated per MEP.

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

// A MEPResult is the outcome of a MEP for the scheduler, with what Config.OnResults needs beyond that. Its slot is free
// again. It has events if the MEP was built or rejected (0 if no part of it came).
type MEPResult struct {
	core.Feedback

	FirstEvent   uint64    // id of its first event, if it was built
	PartsMissing bool      // it was built without the parts of readout units that were gone
	CompletedAt  time.Time // when the last byte was in place, of all MEPs that are finished together
	// ReportHeld says that the report to the scheduler may wait: a result without ReportHeld will follow.
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
	// Layout, if not nil, gives each readout unit its pre-granted window in every slot: parts come without announcement
	// and grant. Nil: readout units announce sizes, and the unit grants windows, for every MEP.
	Layout *placing.Layout
	// Pull says how parts are requested, if windows are not pre-granted. Zero: all at once.
	Pull Pull
	// Decide is called for a MEP whose region of interest is in place, and decides whether the rest is to be fetched. It
	// answers exactly once, by Region.Decide or later by Builder.ApplyDecision. The finisher calls it, one region at a
	// time, and complete MEPs wait meanwhile; ctx is done when the unit is closed. Needed if Pull has RegionUnits.
	Decide func(ctx context.Context, r *Region) error
	// Division has the sources of each readout unit, and MaxEventsPerMEP the most events of a MEP: from them the unit
	// makes the parts of a readout unit that is gone. Zero: the unit cannot go on without a readout unit.
	Division        placing.Division
	MaxEventsPerMEP int
	// Packing is the number of events in a MEP (the last may have fewer). With pre-granted windows it proves the number of
	// a MEP: the first event id must be the number times Packing. Zero: the ids are not checked.
	Packing int
	Run     uint32
	Verify  Verify
	Pattern *pattern.Pattern // rule of the content; nil if there is none
	Sink    sink.Sink
	Tap     *tap.Tap // gets a sample of the built MEPs while it has viewers; nil: no viewers
	// Durable says that a MEP counts as built only once Sink.Flush has made it safe: only then is it reported to the
	// scheduler.
	Durable bool
	// MaxWaitingMEPs is how many complete MEPs may wait for the sink, including the one in it; further MEPs are discarded.
	// Zero: all of them wait, and keep their slots.
	MaxWaitingMEPs int
	Suspension     Suspension
	// OnResults is called with the results of MEPs, each once, one call at a time; it may block. The results are valid
	// until it returns.
	OnResults func([]MEPResult) error
	// Tolerates is called with bad data of a readout unit, and says whether the unit goes on without them: then the part
	// is treated as missing. It may be called with a lock held, so it must not call the unit. Nil: no.
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
	ctx      context.Context // done when the unit is closed
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	wakeFinisher chan struct{} // capacity 1: the batch is not empty
	wakeReturner chan struct{} // capacity 1: MEPs wait to be given up

	finisherDone chan struct{} // closed when the finisher has ended
	commit       committer     // without wake if outcomes need no flush

	closing  sync.Once
	closeErr error // of shutDown

	finisherGate sync.Mutex // held by the finisher while it works on MEPs, and by the suspender

	finisher finisher

	reportMu sync.Mutex // held while results are reported

	mu                 sync.Mutex       // guards the fields below
	asm                *Assembler       // the finisher also reads complete slots of it without mu
	completedSlots     []SlotProgress   // complete regions and MEPs that the finisher has not taken yet
	completedAt        time.Time        // when the last of them became complete
	returns            []MEPResult      // MEPs that are given up, and not reported yet
	announce           placing.Announce // scratch
	message            []byte           // scratch
	waitingMEPs        int              // complete MEPs that wait for the sink, including the one in it
	quiescedExclusions []uint32         // by readout unit: exclusions of this unit for which it has quiesced
	// by slot: the verdicts of a filter on the events of the region; nil if regions are not judged. The finisher owns
	// those of a complete slot.
	verdictsBySlot [][]filter.Verdict
	failed         bool
	closed         bool
	// messages and placements that do not parse, come from ranks without a unit of this run, or come after Close
	rejectedMessages uint64
	finalSlots       shmem.SlotStats // set by Close, after which the slots may be gone

	missingByRU []MissingCounts // by readout unit

	suspensions uint64
	suspended   time.Duration
}

// New makes a builder unit, exports its slots to the readout units and offers every slot. Then come the handlers
// HandleAnnounce, AnswerWindowRequest and PlacedMany, and Close.
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

// newBuilder makes a builder unit without an assembler and a segment.
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

// makeAssembler makes the assembler for the configuration: with pre-granted windows, or with windows granted for each
// MEP.
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
		return errors.New("a region of interest is set (roi), but nothing judges it: give it a share, or set a filter")
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

// exportSlots exports the slots to the readout units, and offers all of them. After an error nothing is exported or
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

// start starts the goroutines of the unit, which end with its context.
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

// HandleAnnounce applies a readout unit's signal of kind placing.KindAnnounce. An error says what is wrong with the
// signal, which then had no effect.
func (b *Builder) HandleAnnounce(rank int, payload []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return b.refuse(errClosed)
	}
	if b.asm.isPreGranted {
		return b.refuse(fmt.Errorf("rank %d announced the sizes of a MEP, but this builder unit has granted its windows for "+
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

// submitLocked requests further parts, and hands the batch from an index on to the finisher.
func (b *Builder) submitLocked(from int) {
	b.requestPartsLocked()
	if len(b.completedSlots) > from {
		b.completedAt = time.Now()
		b.shedLocked(from)
		wakeUp(b.wakeFinisher)
	}
}

// refuse counts a message that cannot be used, and returns why.
func (b *Builder) refuse(why error) error {
	b.rejectedMessages++
	return why
}

// requestPartsLocked requests parts, until no more may be requested now.
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

// grantWindow grants a readout unit its part of a slot, and sends it the window.
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

// openWindow grants a readout unit its part of a slot.
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

// PlacedMany notes that bytes of a readout unit are in place. Each Imm is a placing.Immediate.
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

// failLocked reports the first failure, on a goroutine of its own, since the caller may be a link's receiver.
func (b *Builder) failLocked(err error) {
	if b.failed || b.closed {
		return
	}
	b.failed = true
	b.wg.Go(func() { b.cfg.Fail(err) })
}
