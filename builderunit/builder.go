package builderunit

// Pipeline of a MEP whose sizes are announced (quotabuilder.go has that of one placed by quota):
//
//	1 Announce  (parallel: a link's receiver each)    sizes into the assembler, under mu
//	2 grant     (the receiver that brought the last)  windows granted, told to the readout units, under mu
//	3 Placed    (parallel: receivers)                 bytes counted, under mu; the slot's memory is the network's
//	4 finish    (sequential: finisher)                grants revoked, verified, header written, sink
//	5 release   (sequential: finisher)                the slot is free, the scheduler is told
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
	"ringlet/internal/pattern"
	"ringlet/internal/placing"
	"ringlet/shmem"
	"ringlet/transport"
)

// Outcome of a MEP, as the scheduler is told.
type Outcome uint8

// Outcomes.
const (
	Built Outcome = iota + 1
	Incomplete
)

// A Result is what became of a MEP; its slot is free again.
type Result struct {
	Slot    int
	MEP     uint64
	Attempt uint32
	Outcome Outcome
	Events  int
	Done    time.Time // when the last byte was in place, of all that are finished together
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
	// Packing is the number of events in a MEP (the last may have fewer), by which a MEP placed by quota proves its number: the first
	// event id is the number times that. Zero: the ids are not checked.
	Packing int
	Run     uint32
	Verify  Verify
	Pattern *pattern.Pattern // rule of the content; nil where there is none
	Sink    sink.Sink
	// Feedback is told what became of MEPs, each once, from one goroutine; it may block. The results are valid until it returns.
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
	byRank  map[int]int // readout unit's index by rank
	whole   chan finished
	quota   *quota          // nil where sizes are announced
	ctx     context.Context // over when the unit is closed
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	result [1]Result // owned by the finisher

	mu       sync.Mutex       // guards what follows
	asm      *Assembler       // nil where quota is not
	announce placing.Announce // scratch
	message  []byte           // scratch
	failed   bool
	closed   bool
	rejected uint64          // messages and placements that do not parse, come from ranks with no business here, or come after Close
	final    shmem.SlotStats // once closed: the slots may be gone
}

type finished struct {
	slot int
	at   time.Time
}

// New makes a builder unit, exports its slots to the readout units and offers every slot. Next come its handlers Announce, Ask,
// Placed and PlacedMany, then Close.
func New(cfg Config) (*Builder, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Builder{
		cfg: cfg, verify: verifier{cfg.Verify, cfg.Pattern}, byRank: map[int]int{},
	}
	if cfg.Layout != nil {
		if err := b.shareOut(); err != nil {
			return nil, err
		}
	} else {
		b.asm, b.whole = NewAssembler(len(cfg.RURanks), cfg.Slots.Len(), cfg.Slots.SlotSize()), make(chan finished, cfg.Slots.Len())
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
	finisher := b.finisher
	if cfg.Layout != nil {
		if err := b.standingGrants(); err != nil {
			return nil, errors.Join(err, b.takeBack(cfg.Slots.Len()), cfg.Table.Withdraw(b.segment))
		}
		finisher = b.quotaFinisher
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.wg.Go(finisher)
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
	if err := b.grant(int(m.Slot)); err != nil {
		b.failLocked(err)
	}
	return nil
}

// grant opens each readout unit's part of a slot and tells it.
func (b *Builder) grant(slot int) error {
	mep := b.asm.Slot(slot)
	if err := b.cfg.Slots.Fill(slot, mep.MEP); err != nil {
		return err
	}
	for ru, rank := range b.cfg.RURanks {
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
		b.quota.placed(ru, ps)
		return
	}
	for i := range ps {
		if slot := int(ps[i].Imm); b.asm.Placed(slot, ru, ps[i].Ref, ps[i].Length) {
			b.whole <- finished{slot, time.Now()} // never blocks: a slot is whole once
		}
	}
}

// finisher completes MEPs, one after the other.
func (b *Builder) finisher() {
	var places []Place
	var refs []shmem.Ref
	var tables headerTables
	for {
		select {
		case <-b.ctx.Done():
			return
		case f := <-b.whole:
			b.mu.Lock()
			mep := b.asm.Slot(f.slot)
			places, refs = b.asm.Places(f.slot, places[:0]), b.asm.Refs(f.slot, refs[:0])
			b.mu.Unlock()
			events, err := b.finish(f.slot, mep, places, refs, &tables)
			if err == nil {
				err = b.release(f, mep, events)
			}
			if err != nil {
				b.fail(err)
				return
			}
		}
	}
}

// finish closes the slot to the network, checks the MEP, writes its header and hands it to the sink.
func (b *Builder) finish(slot int, mep MEP, places []Place, refs []shmem.Ref, t *headerTables) (int, error) {
	for _, ref := range refs {
		if err := b.cfg.Table.Revoke(ref); err != nil {
			return 0, fmt.Errorf("MEP %d: %w", mep.MEP, err)
		}
	}
	memory := b.cfg.Slots.Bytes(slot)[:mep.Size]
	if err := b.verify.check(mep.MEP, memory, places); err != nil {
		return 0, err
	}
	if err := t.put(memory, places); err != nil {
		return 0, fmt.Errorf("header of MEP %d: %w", mep.MEP, err)
	}
	m, err := event.ParseMFP(memory[places[0].Offset : places[0].Offset+places[0].Size])
	if err != nil {
		return 0, &IntegrityError{MEP: mep.MEP, Source: places[0].Source, Reason: err.Error(), Cause: err}
	}
	if err := b.cfg.Slots.Build(slot, mep.Size); err != nil {
		return 0, err
	}
	meta := sink.Meta{Run: b.cfg.Run, MEP: mep.MEP, FirstEvent: m.FirstEvent(), Events: m.N(), Attempt: mep.Attempt}
	if err := b.cfg.Sink.Write(b.ctx, meta, memory); err != nil {
		return 0, err
	}
	return m.N(), nil
}

// release gives the slot back and tells the scheduler.
func (b *Builder) release(f finished, mep MEP, events int) error {
	if err := b.cfg.Slots.Free(f.slot); err != nil {
		return err
	}
	if err := b.cfg.Slots.Offer(f.slot); err != nil {
		return err
	}
	b.mu.Lock()
	b.asm.Finish(f.slot)
	b.mu.Unlock()
	b.result[0] = Result{Slot: f.slot, MEP: mep.MEP, Attempt: mep.Attempt, Outcome: Built, Events: events, Done: f.at}
	return b.cfg.Feedback(b.result[:])
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
