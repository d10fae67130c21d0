package sink

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"ringlet/recording"
)

// Pipeline of a MEP to a backlog (LHCb-EB §II; docs/design/063-backlog.md):
//
//	1 Write  (sequential: the builder unit)  waits while the backlog of this builder unit is full, then records the MEP
//	2 watch  (parallel: a goroutine)         sees what the second filter has drained, and lets Write go on
//
// Only the second filter removes segments. If it does not run, Write waits, and the builder unit holds or discards the
// MEPs that wait for a sink.

// BacklogStats are the counters of a Backlog at its last refresh.
type BacklogStats struct {
	BacklogBytes      uint64        `count:"backlog_bytes" kind:"level" unit:"bytes" help:"bytes of the disk backlog, with drained segments that stay"`
	UndrainedSegments int           `count:"backlog_segments" kind:"level" help:"segments not drained, with the open one"`
	OldestAge         time.Duration `count:"backlog_oldest_us" kind:"max" help:"age of the oldest segment not drained"`
	WaitTime          time.Duration `count:"backlog_held_us" help:"time that MEPs waited since the disk backlog was full"`
	DrainedSegments   uint64        `count:"backlog_drained" help:"segments that the second filter has drained"`
	AcceptedEvents    uint64        `count:"backlog_accepted" help:"events that the second filter accepted"`
	RejectedEvents    uint64        `count:"backlog_rejected" help:"events that the second filter rejected"`
	RejectedKept      uint64        `count:"backlog_carried" help:"rejected events that were kept, since another one of their MEP was"`
	PassedEvents      uint64        `count:"backlog_passed" help:"events that passed: by time-out, failed, or found at its restart"`
	CopyEvents        uint64        `count:"backlog_copies" help:"events built twice and judged once"`
	DamagedEvents     uint64        `count:"backlog_damaged" help:"events whose bytes were changed on the disk"`
}

// backlogGate is the pure core: it decides whether there is room for one more MEP.
type backlogGate struct {
	maxBytes      int64  // bytes; immutable
	fileBytes     int64  // in the files at the last refresh
	writtenAtLook uint64 // bytes that Segments had written at that time
	ignoresBound  bool   // built MEPs are written whatever room there is
}

// isFull says whether the next MEP has to wait. written is how many bytes the builder unit has written so far.
func (g *backlogGate) isFull(written uint64) bool {
	return !g.ignoresBound && g.fileBytes+int64(written-min(written, g.writtenAtLook)) >= g.maxBytes
}

// update sets the size of the files. written was read before they were listed, so that isFull leaves no bytes out.
func (g *backlogGate) update(seen int64, written uint64) {
	g.fileBytes, g.writtenAtLook = seen, written
}

// Backlog is the sink that records a run for a second filter, and waits while that filter has too much to drain.
type Backlog struct {
	*Segments
	log    *slog.Logger
	ledger *recording.Ledger // owned by watch
	quit   chan struct{}
	done   chan struct{}

	mu               sync.Mutex // guards what follows
	gate             backlogGate
	gateChanged      sync.Cond // signals a change of the gate; uses mu
	stats            BacklogStats
	stopped          bool
	warnedFull       bool // the log has said that the backlog is full
	warnedUnreadable bool // the log has said that the directory cannot be read
}

// backlogRefreshInterval is how often the directory is read. It is a choice: 5 readings a second.
const backlogRefreshInterval = 200 * time.Millisecond

// NewBacklog bounds the bytes of a builder unit in the recording to, which the Backlog owns from now on.
func NewBacklog(to *Segments, bound int64, log *slog.Logger) (*Backlog, error) {
	if err := recording.ReserveLedger(to.c.Dir); err != nil {
		return nil, errors.Join(wrapError(to.c.Dir, "reserve room for the ledger of the second filter", err), to.Abort())
	}
	m, err := recording.Load(to.c.Dir)
	if err != nil {
		return nil, errors.Join(wrapError(to.c.Dir, "read the manifest", err), to.Abort())
	}
	b := &Backlog{
		Segments: to,
		log:      log,
		ledger:   recording.NewLedger(to.c.Dir, m),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
		gate:     backlogGate{maxBytes: bound},
	}
	b.gateChanged.L = &b.mu
	b.refresh()
	go b.watch()
	return b, nil
}

// Write records the MEP, after it has waited for room.
func (b *Backlog) Write(ctx context.Context, m Meta, mep []byte) error {
	if err := b.waitForSpace(ctx); err != nil {
		return err
	}
	return b.Segments.Write(ctx, m, mep)
}

// waitForSpace waits while the backlog is full.
func (b *Backlog) waitForSpace(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gate.isFull(b.Segments.Written()) {
		return nil
	}
	if !b.warnedFull {
		b.warnedFull = true
		b.log.Warn("the disk backlog is full: built events wait for the second filter", "output", b.c.Dir)
	}
	defer context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.gateChanged.Broadcast()
	})()
	from := time.Now()
	defer func() { b.stats.WaitTime += time.Since(from) }()
	for b.gate.isFull(b.Segments.Written()) && !b.stopped {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := b.failure(); err != nil {
			return err
		}
		b.gateChanged.Wait()
	}
	if b.stopped {
		return wrapError(b.c.Dir, "write", errClosed)
	}
	return nil
}

// LiftBound lets built MEPs be written even if the backlog is full: the run ends, with a few MEPs left.
func (b *Backlog) LiftBound() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate.ignoresBound = true
	b.gateChanged.Broadcast()
}

// watch refreshes the state until stop.
func (b *Backlog) watch() {
	defer close(b.done)
	tick := time.NewTicker(backlogRefreshInterval)
	defer tick.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-tick.C:
			b.refresh()
		}
	}
}

// refresh reads how large the backlog is, and what the second filter has drained.
func (b *Backlog) refresh() {
	written := b.Segments.Written()
	files, err := recording.ReadFiles(b.c.Dir)
	if err == nil {
		err = b.ledger.Refresh()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if !b.warnedUnreadable {
			b.log.Warn("the disk backlog cannot be read", "output", b.c.Dir, "err", err)
		}
		b.warnedUnreadable = true
		b.gateChanged.Broadcast() // a Write that waits checks whether the output has failed
		return
	}
	b.warnedUnreadable = false
	held, _ := files.BuilderTotal(b.c.Builder)
	b.gate.update(held, written)
	b.updateStats(&files, held)
	b.gateChanged.Broadcast()
}

// updateStats computes the counters. The caller holds mu.
func (b *Backlog) updateStats(files *recording.Files, held int64) {
	sum, drained := b.ledger.BuilderTotal(b.c.Builder)
	now := BacklogStats{BacklogBytes: uint64(held), WaitTime: b.stats.WaitTime, DrainedSegments: drained}
	now.AcceptedEvents, now.RejectedEvents, now.CopyEvents, now.DamagedEvents = sum.Accepted, sum.Rejected,
		sum.Copies, sum.Damaged
	now.RejectedKept = sum.RejectedKept
	now.PassedEvents = sum.TimedOut + sum.Failed + sum.FoundInOutput
	var oldest time.Time
	for _, of := range []map[string]recording.DataFile{files.ClosedFiles, files.OpenFiles} {
		for name, f := range of {
			id, _, _ := recording.ParseSegment(name)
			if b.ledger.HasName(name) || id.Builder != b.c.Builder {
				continue
			}
			now.UndrainedSegments++
			if oldest.IsZero() || f.Written.Before(oldest) {
				oldest = f.Written
			}
		}
	}
	if !oldest.IsZero() {
		now.OldestAge = max(0, b.c.Now().Sub(oldest))
	}
	b.stats = now
}

// BacklogStats reads the counters, from any goroutine.
func (b *Backlog) BacklogStats() BacklogStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Written counts drained segments, too: a Write that waits for the second filter makes progress while that drains.
func (b *Backlog) Written() uint64 {
	b.mu.Lock()
	drained := b.stats.DrainedSegments
	b.mu.Unlock()
	return b.Segments.Written() + drained
}

// Finish closes the last segment.
func (b *Backlog) Finish() (Result, error) {
	b.stop()
	defer b.refresh()
	return b.Segments.Finish()
}

// Abort closes the last segment, as Finish does.
func (b *Backlog) Abort() error {
	b.stop()
	return b.Segments.Abort()
}

// stop ends watch, and lets a Write that waits go on.
func (b *Backlog) stop() {
	b.mu.Lock()
	over := b.stopped
	b.stopped = true
	b.gateChanged.Broadcast()
	b.mu.Unlock()
	if !over {
		close(b.quit)
	}
	<-b.done
}
