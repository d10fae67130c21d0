package decision

// Pipeline of a decision:
//
//	1 ResultsPlaced (parallel: a link's receiver each)  reads results from the builder unit's ring into the core, under
//	                                                    mu; reports now and then to the builder unit how many it has
//	                                                    read
//	2 decideLoop    (sequential: one goroutine)         step takes decisions out of the core, in order, under mu
//	3 Publish       (the same goroutine)                encodes them once for all outlets, which must not wait; the
//	                                                    publisher for readout units is one of these
//
// No step allocates per decision.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/shmem"
)

// Signaler sends a short message to a rank. It never waits.
type Signaler interface {
	Signal(rank int, message []byte) error
}

// An Outlet passes decisions on. Publish gets consecutive ones, ResultSize bytes each, valid until it returns; it must
// not wait.
type Outlet interface {
	Publish(decisions []byte)
}

// UnitConfig is the configuration of a Unit.
type UnitConfig struct {
	Core         Config // NewUnit sets FirstEvent and BuilderCount
	RingCapacity int    // of each ring: RingCapacityFor
	BuilderRanks []int  // rank of each builder unit, by index
	ReadoutRanks []int  // ranks of the readout units, which get all decisions
	Table        *shmem.Table
	Segment      *shmem.Segment // SegmentSize bytes; the caller closes it after Close
	Signaler     Signaler
	Outlets      []Outlet
	// Rejoining says that events were triggered before this unit was there. It begins with the event in the first
	// Triggered message.
	Rejoining bool
	Log       *slog.Logger
}

// SegmentSize returns how many bytes the result rings of the given number of builder units need; each ring has places
// for that many results.
func SegmentSize(builders, places int) int { return builders * places * ResultSize }

// Unit is a decision unit.
type Unit struct {
	// immutable
	cfg        UnitConfig
	segment    shmem.SegmentID
	ringByRank map[int]*resultRing
	began      time.Time
	ctx        context.Context
	cancel     context.CancelFunc
	wg         sync.WaitGroup
	wake       chan struct{} // capacity 1: there may be something to decide
	publisher  *publisher    // nil: there are no readout units

	refusedMessages atomic.Uint64

	mu sync.Mutex // guards what follows
	// nil: the unit rejoins, and does not know its first event yet
	core                                           *core
	peers                                          map[int]*peer // by rank: nodes that send results or triggers
	ringStats                                      UnitStats
	totalLatency, buildingLatency, orderingLatency latencyTally
	judgingLatency                                 *hdr.Histogram
	message                                        []byte // scratch
}

type peer struct {
	reportedEnd    bool   // it has sent everything
	resultsWritten uint64 // results that it wrote into its ring, once reportedEnd
}

// resultRing is the ring of one builder unit.
type resultRing struct {
	index           int
	ref             shmem.Ref
	mem             []byte
	resultsRead     uint64 // guarded by the Unit's mu
	resultsCredited uint64
}

// UnitStats are the counters of a Unit and of its pure core, since the unit was made.
type UnitStats struct {
	Stats
	DeliveryStats
	BadChecksum      uint64 `count:"results_broken" help:"results whose checksum is wrong: overwritten while they were read"`
	WrongBuilder     uint64 `count:"results_foreign" help:"results in the result ring of one builder unit that name another one"`
	BeforeFirstEvent uint64 `count:"results_early" help:"results that came before the unit, after a restart, knew its first event"`
	Refused          uint64 `count:"messages_refused" help:"messages and writes that the decision unit could not use"`
}

// NewUnit makes a decision unit and exports its result rings. The caller calls Announce for each rank with units once
// the unit can receive messages, then ResultsPlaced and HandleMessage, and at the end FinishDecisions and Close.
func NewUnit(cfg UnitConfig) (*Unit, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Core.BuilderCount = len(cfg.BuilderRanks)
	cfg.Core.setDefaults()
	if err := cfg.Core.check(); err != nil {
		return nil, err
	}
	u := &Unit{
		cfg:            cfg,
		ringByRank:     map[int]*resultRing{},
		peers:          map[int]*peer{},
		began:          time.Now(),
		wake:           make(chan struct{}, 1),
		judgingLatency: hdr.New(1, MaxTookMicros, 3),
	}
	for _, t := range u.tallies() {
		t.histogram = hdr.New(1, int64(time.Minute/time.Microsecond), 3)
	}
	if !cfg.Rejoining {
		if err := u.begin(0); err != nil {
			return nil, err
		}
	}
	if err := u.exportRings(); err != nil {
		return nil, err
	}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	if len(cfg.ReadoutRanks) > 0 {
		u.publisher = startPublisher(cfg.Core.Epoch, cfg.Signaler)
		u.cfg.Outlets = append(slices.Clip(cfg.Outlets), u.publisher)
	}
	u.wg.Go(u.decideLoop)
	return u, nil
}

func (u *Unit) begin(first uint64) (err error) {
	cfg := u.cfg.Core
	cfg.FirstEvent, cfg.OnDecision = first, u.recordLatency
	u.core, err = makeCore(cfg)
	return err
}

// exportRings grants each builder unit its result ring.
func (u *Unit) exportRings() (err error) {
	size := u.cfg.RingCapacity * ResultSize
	var rules []shmem.PageRule
	for i, rank := range u.cfg.BuilderRanks {
		rules = append(rules, shmem.PageRule{
			FirstPage: i * size / shmem.PageSize,
			PageCount: size / shmem.PageSize,
			Peer:      shmem.Peer(rank),
			Access:    shmem.AccessNwrite,
		})
	}
	if u.segment, err = u.cfg.Table.ExportSegment(u.cfg.Segment, rules...); err != nil {
		return fmt.Errorf("exporting the result rings of the decision unit: %w", err)
	}
	for i, rank := range u.cfg.BuilderRanks {
		l := &resultRing{index: i, mem: u.cfg.Segment.Bytes()[i*size : (i+1)*size]}
		l.ref, err = u.cfg.Table.Grant(shmem.Peer(rank), u.segment, i*size, size, shmem.AccessNwrite)
		if err != nil {
			return errors.Join(fmt.Errorf("granting a result ring of the decision unit to rank %d: %w", rank, err),
				u.revokeRings())
		}
		u.ringByRank[rank] = l
	}
	return nil
}

func (u *Unit) revokeRings() (err error) {
	for _, l := range u.ringByRank {
		err = errors.Join(err, u.cfg.Table.Revoke(l.ref))
	}
	return errors.Join(err, u.cfg.Table.Withdraw(u.segment))
}

// Announce tells a rank that this unit is there. FinishDecisions waits until that rank has ended or is lost. If the
// rank has a readout unit, it gets decisions from the next one on.
func (u *Unit) Announce(rank int) {
	u.mu.Lock()
	u.peers[rank] = &peer{}
	u.mu.Unlock()
	reads := slices.Contains(u.cfg.ReadoutRanks, rank)
	if reads {
		u.publisher.removeReader(rank) // of the process that was there before
	}
	m := Message{Kind: KindOpen, Epoch: u.cfg.Core.Epoch}
	if l := u.ringByRank[rank]; l != nil {
		m.Ref, m.RingCapacity = l.ref, uint32(u.cfg.RingCapacity)
	}
	if err := u.cfg.Signaler.Signal(rank, m.Append(nil)); err != nil {
		u.cfg.Log.Warn("a node could not be told that the decision unit is there", "rank", rank, "err", err)
		return
	}
	if reads {
		u.publisher.addReader(rank) // after Open, on the same link
	}
}

func (u *Unit) now() int64 { return int64(time.Since(u.began)) }

// HandleMessage handles a message of a rank. An error says what was wrong with it; then nothing has changed.
func (u *Unit) HandleMessage(rank int, b []byte) error {
	var m Message
	err := m.Parse(b)
	switch {
	case err != nil:
	case m.Kind == KindRequestOpen:
		u.Announce(rank)
		return nil
	case m.Kind != KindTriggered && m.Kind != KindEnd && m.Kind != KindAck:
		err = fmt.Errorf("%w: kind %d is not for a decision unit", ErrMessage, m.Kind)
	case m.Epoch != u.cfg.Core.Epoch:
		return nil // for an earlier unit
	case m.Kind == KindEnd:
		err = u.endPeer(rank, m.Number)
		if err == nil {
			return nil
		}
	case m.Kind == KindAck:
		if u.publisher != nil && u.publisher.ackReader(rank, m.Number) {
			return nil
		}
		err = fmt.Errorf("%w: %d messages acknowledged, more than were sent", ErrMessage, m.Number)
	case m.Number > maxEventNumber:
		err = fmt.Errorf("%w: it triggers the events below %d, and events are below %d", ErrMessage, m.Number,
			uint64(maxEventNumber))
	}
	if err != nil {
		u.refusedMessages.Add(1)
		return fmt.Errorf("from rank %d: %w", rank, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.core == nil {
		err = u.begin(m.Number)
	}
	if err == nil && !u.core.markTriggered(m.Number, u.now()) {
		u.refusedMessages.Add(1)
		err = fmt.Errorf("from rank %d: %w: it triggers the events below %d: those below %d are, and one message may add %d",
			rank, ErrMessage, m.Number, u.core.triggeredTimes.triggeredBelow, maxTriggeredAtOnce)
	}
	if err == nil {
		u.notify()
	}
	return err
}

// endPeer notes that a rank has sent everything. results is how many results it has written into its ring in all.
func (u *Unit) endPeer(rank int, results uint64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.peers[rank]
	if p == nil || results > 0 && u.ringByRank[rank] == nil {
		return fmt.Errorf("%w: rank %d has no units, or %d results and no ring for them", ErrMessage, rank, results)
	}
	p.reportedEnd, p.resultsWritten = true, results
	if u.publisher != nil {
		u.publisher.endReader(rank)
	}
	return nil
}

// RankLost notes that the link to a rank is down: it sends nothing more.
func (u *Unit) RankLost(rank int) {
	if u.publisher != nil {
		u.publisher.removeReader(rank)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.peers, rank)
}

// IsRingOf says whether ref is the result ring of a rank.
func (u *Unit) IsRingOf(rank int, ref shmem.Ref) bool {
	l := u.ringByRank[rank]
	return l != nil && l.ref == ref
}

// ResultsPlaced reads results that a rank has written into its ring.
func (u *Unit) ResultsPlaced(rank int, ref shmem.Ref, offset, length uint32) {
	l := u.ringByRank[rank]
	if l == nil || ref != l.ref || offset%ResultSize != 0 || length%ResultSize != 0 ||
		uint64(offset)+uint64(length) > uint64(len(l.mem)) {
		u.refusedMessages.Add(1)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	var r Result
	var copied [ResultSize]byte // a faulty builder unit may write while this reads
	for at := offset; at < offset+length; at += ResultSize {
		copy(copied[:], l.mem[at:])
		switch {
		case r.Parse(copied[:]) != nil:
			u.ringStats.BadChecksum++
		case u.core == nil:
			u.ringStats.BeforeFirstEvent++
		case int(r.Builder) != l.index:
			u.ringStats.WrongBuilder++
		case u.core.accept(&r, now) == FateUsed:
			_ = u.judgingLatency.RecordValue(int64(r.TookMicros))
		}
	}
	if l.resultsRead += uint64(length / ResultSize); l.resultsRead-l.resultsCredited >= uint64(u.cfg.RingCapacity/4) {
		l.resultsCredited = l.resultsRead
		m := Message{Kind: KindCredit, Epoch: u.cfg.Core.Epoch, Number: l.resultsRead}
		u.message = m.Append(u.message[:0])
		_ = u.cfg.Signaler.Signal(rank, u.message) // without the credit the builder unit stops writing
	}
	u.notify()
}

func (u *Unit) notify() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// maxBatch is the most decisions published at once: 64 KiB.
const maxBatch = 4096

// decideLoop decides until the unit is finished and nothing is left to decide.
func (u *Unit) decideLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	out, encoded := make([]Result, 0, maxBatch), make([]byte, maxBatch*ResultSize)
	for {
		over := u.ctx.Err() != nil
		var due int64
		var waits bool
		out, due, waits = u.step(out[:0])
		for i := range out {
			out[i].Put(encoded[i*ResultSize:])
		}
		if len(out) > 0 {
			for _, o := range u.cfg.Outlets {
				o.Publish(encoded[:len(out)*ResultSize])
			}
		}
		if len(out) == maxBatch {
			continue
		}
		if over {
			return
		}
		var tick <-chan time.Time
		if waits {
			timer.Reset(time.Duration(max(1, due-u.now())))
			tick = timer.C
		}
		select {
		case <-u.wake:
		case <-tick:
		case <-u.ctx.Done():
		}
	}
}

func (u *Unit) step(out []Result) (_ []Result, due int64, waits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.core == nil {
		return out, 0, false
	}
	out = u.core.step(u.now(), out)
	for _, t := range u.tallies() {
		t.flush()
	}
	due, waits = u.core.nextTimeout()
	return out, due, waits
}

// drainPollInterval is how often FinishDecisions checks whether it may end.
const drainPollInterval = 5 * time.Millisecond

// FinishDecisions ends deciding: when every announced rank has ended or is lost, its results are read, and each
// triggered event has its decision; or when ctx ends. Then the events without a decision get one. Results after that
// are late; the rings accept them until Close.
func (u *Unit) FinishDecisions(ctx context.Context) {
	for !u.isDrained() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(drainPollInterval):
		}
	}
	u.mu.Lock()
	if u.core != nil {
		u.core.endResults()
	}
	u.mu.Unlock()
	u.cancel()
	u.wg.Wait()
	if u.publisher != nil {
		u.publisher.close()
	}
}

// Close revokes the result rings, so that no builder unit writes there any more. It is called once, after
// FinishDecisions.
func (u *Unit) Close() error { return u.revokeRings() }

func (u *Unit) isDrained() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for rank, p := range u.peers {
		if l := u.ringByRank[rank]; !p.reportedEnd || l != nil && l.resultsRead < p.resultsWritten {
			return false
		}
	}
	return u.core == nil || u.core.snapshot().Pending == 0
}

// Stats returns the counters so far.
func (u *Unit) Stats() UnitStats {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.ringStats
	if u.core != nil {
		s.Stats = u.core.snapshot()
	}
	s.Refused = u.refusedMessages.Load()
	if u.publisher != nil {
		s.DeliveryStats = u.publisher.stats()
	}
	return s
}
