package builderunit

// Pipeline of a MEP whose sizes are announced (quotabuilder.go has that of one placed by quota):
//
//	1 Announce  (parallel: a link's receiver each)    sizes into the assembler, under mu
//	2 ask       (the receiver that brought the last)  windows granted, told to the readout units, as many as Pull lets, under mu
//	3 Placed    (parallel: receivers)                 bytes counted, the next asked for, under mu; the slot's memory is the network's
//	4 decide    (sequential: finisher)                of a region of interest: revoked, verified, Decide; on with 2, or 6
//	5 finish    (sequential: finisher)                grants revoked, verified, header written, sink
//	6 release   (sequential: finisher)                the slot is free, the scheduler is told
//
// What the sink has no time for leaves at 3, where there is a Backlog (overload.go).
//
// The MFPs are written once, by the network, where they stay. Nothing here copies them; sinks read them in place.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/internal/stopwatch"
	"ringlet/shmem"
	"ringlet/transport"
)

// Outcome of a MEP, as the scheduler is told.
type Outcome uint8

// Outcomes.
const (
	Built Outcome = iota + 1
	Incomplete
	Rejected  // by a decision on its region of interest
	Discarded // whole, and let go since the sink could not keep up
)

// A Result is what became of a MEP; its slot is free again.
type Result struct {
	Slot    int
	MEP     uint64
	Attempt uint32
	Outcome Outcome
	Events  int       // of a MEP that was built
	Done    time.Time // when the last byte was in place, of all that are finished together
	// Held says that the scheduler need not be told yet: another result will come that is not held.
	Held bool
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
	// Layout, if not nil, is what each readout unit owns of every slot: parts come without announcement or grant, by Ask and
	// PlacedMany. Nil: sizes are announced and windows granted for every MEP.
	Layout *placing.Layout
	// Pull says how parts are asked for where they are announced. Zero: all at once.
	Pull Pull
	// Decide says, of a MEP whose region of interest is in place, whether the rest is to be asked for; it is given the MFPs that
	// are here, in order of source id, valid until it returns. The finisher calls it, so it is one at a time. Needed where Pull has an Interest.
	Decide func(mep uint64, mfps [][]byte) bool
	// Packing is the number of events in a MEP (the last may have fewer), by which a MEP placed by quota proves its number: the first
	// event id is the number times that. Zero: the ids are not checked.
	Packing int
	Run     uint32
	Verify  Verify
	Pattern *pattern.Pattern // rule of the content; nil where there is none
	Sink    sink.Sink
	// Lasting says that a MEP counts as built only when Sink.Flush has made it safe: the scheduler is told then, and not before.
	Lasting bool
	// Backlog is how many whole MEPs may wait for the sink, the one that it has included; those that come then are discarded. Zero: all
	// of them wait, and their slots with them.
	Backlog int
	Suspend Suspension
	// Feedback is told what became of MEPs, each once, one call at a time; it may block. The results are valid until it returns.
	Feedback func([]Result) error
	// Fail is called at most once, when the unit cannot go on. It must not call Close.
	Fail func(error)
	Log  *slog.Logger
}

// Builder is a builder unit: a pure Assembler or QuotaAssembler, slots in shared memory, and a goroutine that finishes MEPs.
type Builder struct {
	// immutable after New
	cfg     Config
	segment shmem.SegmentID
	verify  verifier
	byRank  map[int]int     // readout unit's index by rank
	whole   chan finished   // nil where shares are by quota
	spill   chan finished   // MEPs to be discarded
	quota   *quota          // nil where sizes are announced
	ctx     context.Context // over when the unit is closed
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	discards bool                // the sink drops everything; immutable
	inSink   stopwatch.Stopwatch // of the finisher

	finished chan struct{}       // closed when the finisher has ended
	commit   committer           // without wake where outcomes need no flush
	flushing stopwatch.Stopwatch // of the committer

	closing  sync.Once
	closeErr error // of closing

	gate sync.Mutex // held by the finisher while it works on a MEP, and by the suspender

	telling sync.Mutex // held while the scheduler is told; guards result
	result  [1]Result

	mu       sync.Mutex       // guards what follows
	asm      *Assembler       // nil where quota is not
	announce placing.Announce // scratch
	message  []byte           // scratch
	backlog  backlog
	settled  []uint32 // by readout unit: exclusions of this unit of which nothing comes from it any more
	failed   bool
	closed   bool
	rejected uint64          // messages and placements that do not parse, come from ranks with no business here, or come after Close
	final    shmem.SlotStats // once closed: the slots may be gone

	suspensions uint64
	suspended   time.Duration
}

type finished struct {
	slot   int
	landed Landed // Interest or Whole
	at     time.Time
}

// New makes a builder unit, exports its slots to the readout units and offers every slot. Next come its handlers Announce, Ask,
// Placed and PlacedMany, then Close.
func New(cfg Config) (*Builder, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Builder{
		cfg: cfg, verify: verifier{kind: cfg.Verify, pattern: cfg.Pattern}, byRank: map[int]int{}, backlog: backlog{most: cfg.Backlog},
		settled: make([]uint32, len(cfg.RURanks)), finished: make(chan struct{}),
	}
	_, b.discards = cfg.Sink.(*sink.Discard)
	switch {
	case cfg.Layout != nil:
		if err := b.shareOut(); err != nil {
			return nil, err
		}
	case len(cfg.Pull.Interest) > 0 && cfg.Decide == nil:
		return nil, errors.New("there is a region of interest, and nobody to decide on it")
	default:
		b.asm = NewAssembler(len(cfg.RURanks), cfg.Slots.Len(), cfg.Slots.SlotSize(), cfg.Pull)
		b.whole, b.spill = make(chan finished, cfg.Slots.Len()), make(chan finished, cfg.Slots.Len())
	}
	var rules []shmem.PageRule
	first := cfg.Slots.Offset(0) / shmem.PageSize
	pages := (cfg.Slots.Len()*cfg.Slots.SlotSize() + shmem.PageSize - 1) / shmem.PageSize
	for i, rank := range cfg.RURanks {
		b.byRank[rank] = i
		rules = append(rules, shmem.PageRule{FirstPage: first, Pages: pages, Peer: shmem.Peer(rank), Access: shmem.AccessNwrite})
	}
	var err error
	if b.segment, err = cfg.Table.ExportSegment(cfg.Slots.Segment(), rules...); err != nil {
		return nil, fmt.Errorf("exporting the slots: %w", err)
	}
	for i := range cfg.Slots.Len() {
		if err := cfg.Slots.Offer(i); err != nil {
			return nil, errors.Join(err, b.takeBack(i), cfg.Table.Withdraw(b.segment))
		}
	}
	finisher, discarder := b.finisher, b.discarder
	if cfg.Layout != nil {
		if err := b.standingGrants(); err != nil {
			return nil, errors.Join(err, b.takeBack(cfg.Slots.Len()), cfg.Table.Withdraw(b.segment))
		}
		finisher, discarder = b.quotaFinisher, b.quotaDiscarder
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.wg.Go(func() {
		defer close(b.finished)
		finisher()
	})
	if cfg.Lasting {
		b.commit.wake = make(chan struct{}, 1)
		b.wg.Go(b.committing)
	}
	if cfg.Backlog > 0 {
		b.wg.Go(discarder)
	}
	if cfg.Suspend.For > 0 {
		b.wg.Go(b.suspender)
	}
	return b, nil
}

// Announce takes a readout unit's signal of kind placing.KindAnnounce. An error says what was wrong with it; it had no effect.
func (b *Builder) Announce(rank int, payload []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		b.rejected++
		return ErrClosed
	}
	if b.quota != nil {
		b.rejected++
		return fmt.Errorf("rank %d announced a MEP to a builder unit whose slots are shared out by quota", rank)
	}
	if err := b.announce.Parse(payload); err != nil {
		b.rejected++
		return err
	}
	m := &b.announce
	if ru, ok := b.byRank[rank]; !ok || ru != int(m.RU) {
		b.rejected++
		return fmt.Errorf("rank %d announced MEP %d in the name of readout unit %d", rank, m.MEP, m.RU)
	}
	ready, err := b.asm.Announce(m)
	if err != nil {
		var refused *AnnounceError
		if errors.As(err, &refused) {
			return err
		}
		b.failLocked(err) // the readout unit is right, but the MEP cannot be built
		return nil
	}
	if !ready {
		return nil
	}
	if err := b.cfg.Slots.Fill(int(m.Slot)); err != nil {
		b.failLocked(err)
		return nil
	}
	b.askLocked()
	return nil
}

// askLocked asks for parts, until nothing is to be asked for now.
func (b *Builder) askLocked() {
	for slot, ru, ok := b.asm.Ask(); ok; slot, ru, ok = b.asm.Ask() {
		if err := b.grant(slot, ru); err != nil {
			b.failLocked(err)
			return
		}
	}
}

// grant opens a readout unit's part of a slot and tells it.
func (b *Builder) grant(slot, ru int) error {
	mep, rank := b.asm.Slot(slot), b.cfg.RURanks[ru]
	off, size := b.asm.Part(slot, ru)
	ref, err := b.cfg.Table.Grant(shmem.Peer(rank), b.segment, b.cfg.Slots.Offset(slot)+off, size, shmem.AccessNwrite)
	if err != nil {
		return fmt.Errorf("MEP %d: %w", mep.MEP, err)
	}
	b.asm.Granted(slot, ru, ref)
	g := placing.Grant{
		Slot: uint32(slot), Attempt: mep.Attempt, MEP: mep.MEP, Window: ref.Window, Gen: ref.Gen, Length: uint32(size),
	}
	b.message = g.Append(b.message[:0])
	if err := b.cfg.Signaler.Signal(rank, b.message); err != nil {
		return fmt.Errorf("granting MEP %d to readout unit %d: %w", mep.MEP, ru, err)
	}
	return nil
}

// Placed takes the notice that a readout unit's bytes are in place. Imm is the slot, as the grant told it; by quota, it is a
// placing.Immediate.
func (b *Builder) Placed(rank int, p transport.Placement) {
	b.PlacedMany(rank, []transport.Placement{p})
}

// PlacedMany is Placed for many, one after the other.
func (b *Builder) PlacedMany(rank int, ps []transport.Placement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ru, ok := b.byRank[rank]
	if !ok || b.closed {
		b.rejected += uint64(len(ps))
		return
	}
	if b.quota != nil {
		b.quota.placed(ru, ps, &b.backlog)
		return
	}
	for i := range ps {
		slot := int(ps[i].Imm)
		switch landed := b.asm.Placed(slot, ru, ps[i].Ref, ps[i].Length); landed {
		case Partly:
			continue
		case Interest, Whole:
			to := b.whole
			if landed == Whole && !b.backlog.join() {
				to = b.spill
			}
			to <- finished{slot, landed, time.Now()} // never blocks: a slot is there once, until it has been taken
		}
		b.askLocked()
	}
}

// finisher decides on MEPs and completes them, one after the other.
func (b *Builder) finisher() {
	var f finishing
	for {
		select {
		case <-b.ctx.Done():
			return
		case done := <-b.whole:
			step := b.complete
			if done.landed == Interest {
				step = b.decide
			}
			b.gate.Lock()
			err := step(done, &f)
			b.gate.Unlock()
			if err != nil {
				b.fail(err)
				return
			}
		}
	}
}

// finishing is the finisher's scratch.
type finishing struct {
	places []Place
	refs   []shmem.Ref
	mfps   [][]byte
	tables headerTables
}

// take closes to the network what is in place of a slot, and returns what lies there, verified.
func (b *Builder) take(f finished, s *finishing) (MEP, []byte, error) {
	b.mu.Lock()
	mep := b.asm.Slot(f.slot)
	s.places, s.refs = b.asm.InPlace(f.slot, s.places[:0]), b.asm.Refs(f.slot, s.refs[:0])
	b.mu.Unlock()
	if err := b.revoke(mep.MEP, s.refs); err != nil {
		return mep, nil, err
	}
	memory := b.cfg.Slots.Bytes(f.slot)[:mep.Size]
	return mep, memory, b.verify.check(mep.MEP, memory, s.places)
}

// revoke ends what was granted for a MEP.
func (b *Builder) revoke(mep uint64, refs []shmem.Ref) error {
	for _, ref := range refs {
		if err := b.cfg.Table.Revoke(ref); err != nil {
			return fmt.Errorf("MEP %d: %w", mep, err)
		}
	}
	return nil
}

// decide lets Decide look at a region of interest: the rest is asked for, or the MEP is over.
func (b *Builder) decide(f finished, s *finishing) error {
	mep, memory, err := b.take(f, s)
	if err != nil {
		return err
	}
	s.mfps = s.mfps[:0]
	for _, p := range s.places {
		s.mfps = append(s.mfps, memory[p.Offset:p.Offset+p.Size])
	}
	if !b.cfg.Decide(mep.MEP, s.mfps) {
		if err := b.cfg.Slots.Abandon(f.slot); err != nil {
			return err
		}
		return b.release(f, mep, Rejected, 0)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asm.Accept(f.slot)
	b.askLocked()
	return nil
}

// complete checks a whole MEP, writes its header and hands it to the sink.
func (b *Builder) complete(f finished, s *finishing) error {
	mep, memory, err := b.take(f, s)
	if err != nil {
		return err
	}
	if err := s.tables.put(memory, s.places); err != nil {
		return fmt.Errorf("header of MEP %d: %w", mep.MEP, err)
	}
	first := &s.places[0]
	m, err := event.ParseMFP(memory[first.Offset : first.Offset+first.Size])
	if err != nil {
		return &IntegrityError{MEP: mep.MEP, Source: first.Source, Reason: err.Error(), Cause: err}
	}
	if err := b.cfg.Slots.Build(f.slot); err != nil {
		return err
	}
	meta := sink.Meta{Run: b.cfg.Run, MEP: mep.MEP, FirstEvent: m.FirstEvent(), Events: m.N(), Attempt: mep.Attempt}
	if err := b.output(meta, memory); err != nil {
		return err
	}
	if err := b.cfg.Slots.Free(f.slot); err != nil {
		return err
	}
	return b.release(f, mep, Built, m.N())
}

// output hands a MEP to the sink, and counts the time that takes. One that drops everything is not worth two readings of the clock.
func (b *Builder) output(meta sink.Meta, memory []byte) error {
	if !b.discards {
		b.inSink.Start()
		defer b.inSink.Stop()
	}
	return b.cfg.Sink.Write(b.ctx, meta, memory)
}

// release offers the slot again and tells the scheduler what became of its MEP.
func (b *Builder) release(f finished, mep MEP, o Outcome, events int) error {
	if err := b.cfg.Slots.Offer(f.slot); err != nil {
		return err
	}
	b.telling.Lock() // from before the slot counts as free, for Reset
	defer b.telling.Unlock()
	b.mu.Lock()
	switch o {
	case Built:
		b.asm.Finish(f.slot)
		b.backlog.leave(1)
	case Discarded:
		b.asm.Discard(f.slot)
	default:
		b.asm.Reject(f.slot)
	}
	// Those under way may be with a sink that is stuck, so that the outcome to come which others are held for does not.
	held := b.asm.Hold() && o != Discarded
	b.mu.Unlock()
	b.result[0] = Result{Slot: f.slot, MEP: mep.MEP, Attempt: mep.Attempt, Outcome: o, Events: events, Done: f.at, Held: held}
	if o == Built && b.commit.wake != nil {
		b.commit.hold(b.result[:])
		return nil
	}
	return b.cfg.Feedback(b.result[:])
}

// tell tells the scheduler what became of MEPs.
func (b *Builder) tell(results []Result) error {
	b.telling.Lock()
	defer b.telling.Unlock()
	return b.cfg.Feedback(results)
}

// headerTables are the finisher's scratch for MEP headers.
type headerTables struct {
	sources []uint16
	offsets []uint32
}

func (t *headerTables) put(memory []byte, places []Place) error {
	t.sources, t.offsets = t.sources[:0], t.offsets[:0]
	for _, p := range places {
		t.sources = append(t.sources, p.Source)
		t.offsets = append(t.offsets, uint32(p.Offset/event.MEPWord))
	}
	words, err := event.MEPWords(len(memory))
	if err == nil {
		_, err = event.PutMEPHeader(memory, t.sources, t.offsets, words)
	}
	return err
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
