package shmring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"ringlet/event"
	"ringlet/shmem"
	"ringlet/shmem/ring"
	"ringlet/source/live"
)

// livenessInterval is how long a front-end that gives nothing is trusted to live before its lock is looked at.
const livenessInterval = 100 * time.Millisecond

// feed is a ring of this process that a front-end fills.
type feed struct {
	// immutable after Open
	name string
	log  *slog.Logger
	seg  *shmem.Segment
	// pollBound and alive are methods, kept so that a wait makes no new ones
	pollBound       func() (bool, error)
	checkAliveBound func() error

	// owned by the goroutine of Next
	ring        *ring.Consumer
	watch       frontendWatch
	dst         []live.Fragment // of the Next that runs
	filledCount int             // of dst, filled
	lastCheck   time.Time
	failure     error
	closed      bool
	resume      uint64            // from which event a front-end that comes is to send
	hasResume   bool              // resume is known
	givenUp     live.GivenUpRange // what was given up, and is not reported yet
	heldLogged  bool              // it was logged that a front-end is held back

	// atomic
	frontend, refusal                                            atomic.Pointer[string]
	fragments, bytes, dropped, refused, attachedCount, goneCount atomic.Uint64
}

var errClosed = errors.New("the source is closed")

// Open makes the ring that s.Address names, and waits for nobody: a front-end may attach from now on. A ring of that
// name whose maker was killed makes room for it.
//
// Errors are *addressError and those of shmem.Create, with the source's name.
func Open(_ context.Context, s live.FeedSettings) (live.Feed, error) {
	a, err := parseAddress(s.Name, s.Address)
	if err != nil {
		return nil, err
	}
	f := &feed{name: s.Name, log: s.Log}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.pollBound, f.checkAliveBound = f.readAvailable, f.checkAlive
	if _, err := shmem.Reclaim(a.name, shmem.WithDir(a.dir)); err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Name, err)
	}
	f.seg, f.ring, err = ring.Create(a.name, a.size, ring.Settings{
		Use:    ring.Fragments,
		Source: s.SourceID,
		Run:    s.Run,
	}, shmem.WithDir(a.dir))
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Name, err)
	}
	return f, nil
}

// Next is live.Feed's.
func (f *feed) Next(ctx context.Context, dst []live.Fragment) (int, error) {
	if err := f.checkOpen(ctx); err != nil || len(dst) == 0 {
		return 0, err
	}
	f.flushGivenUp()
	f.ring.PublishResume(f.resume, f.hasResume)
	f.dst, f.filledCount = dst, 0
	if ok, err := f.readAvailable(); ok || err != nil {
		return f.filledCount, err
	}
	var err error
	for f.filledCount == 0 && err == nil {
		// What the front-end is decides how long a sleep may be, so each attachment begins a new one.
		if err = f.ring.Wait(ctx, 0, f.pollBound, f.checkAliveBound); errors.Is(err, errRecheck) {
			err = nil
		}
	}
	return f.filledCount, err
}

func (f *feed) checkOpen(ctx context.Context) error {
	switch {
	case f.closed:
		return fmt.Errorf("source %s: %w", f.name, errClosed)
	case f.failure != nil:
		return f.failure
	}
	return ctx.Err()
}

// readAvailable writes to dst what is there, and says whether that is anything.
func (f *feed) readAvailable() (bool, error) {
	state, attached := f.ring.ProducerState() // first: what was written before the end counts
	f.noteArrivals(f.watch.update(state, attached, true))
	var bytes uint64
	var err error
	for f.filledCount < len(f.dst) {
		var r ring.Record
		var ok bool
		if r, ok, err = f.ring.Next(); !ok {
			break
		}
		f.dst[f.filledCount] = live.Fragment{Event: r.Number, Type: event.BankType(r.Kind), Data: r.Data}
		f.filledCount++
		bytes += uint64(len(r.Data))
	}
	f.updateCounters(bytes)
	switch {
	case f.filledCount > 0: // an error comes again
		return true, nil
	case err != nil:
		return false, f.refuse(err)
	case state == ring.Ended:
		f.ring.AckEnd()
		return false, io.EOF
	}
	return false, nil
}

// updateCounters brings the counters up to date.
func (f *feed) updateCounters(bytes uint64) {
	f.fragments.Add(uint64(f.filledCount))
	f.bytes.Add(bytes)
	f.dropped.Store(f.ring.Dropped())
	if bad := f.ring.RefusedRecords() - f.refused.Load(); bad > 0 {
		f.refused.Add(bad)
		why := f.ring.WhyRefused()
		f.refusal.Store(&why)
		f.log.Warn("refused records of a front-end", "source", f.name, "frontend", f.Frontend(), "records", bad, "why", why)
	}
}

// refuse ends the source: what stands in the ring cannot be.
func (f *feed) refuse(err error) error {
	f.refused.Add(1)
	f.ring.Close(true)
	f.failure = fmt.Errorf("source %s: %w: the front-end has a fault, nothing behind this can be trusted; "+
		"repair it and start a new run", f.name, err)
	why := err.Error()
	f.refusal.Store(&why)
	f.log.Error("refused a front-end", "source", f.name, "frontend", f.Frontend(), "error", err)
	return f.failure
}

// errRecheck makes Next wait anew.
var errRecheck = errors.New("look again")

// checkAlive finds whether the front-end that says it is there has died.
func (f *feed) checkAlive() error {
	now := time.Now()
	if now.Sub(f.lastCheck) < livenessInterval {
		return nil
	}
	f.lastCheck = now
	locked, err := f.seg.IsByteClaimed(ring.ProducerByte)
	if err != nil {
		return fmt.Errorf("source %s: whether the front-end lives: %w", f.name, err)
	}
	// After the lock: who says now that it is attached, and had no lock before, is dead or has just come. The one who
	// came is seen by its number.
	state, attached := f.ring.ProducerState()
	f.noteArrivals(f.watch.update(state, attached, locked))
	return errRecheck
}

// Stats is live.Feed's.
func (f *feed) Stats() live.Stats {
	return live.Stats{
		Fragments:         f.fragments.Load(),
		Bytes:             f.bytes.Load(),
		DroppedByFrontend: f.dropped.Load(),
		RefusedMessages:   f.refused.Load(),
		FrontendsAttached: f.attachedCount.Load(),
		FrontendsGone:     f.goneCount.Load(),
	}
}

// Close is live.Feed's.
func (f *feed) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	f.flushGivenUp()
	f.dropped.Store(f.ring.Dropped())
	if f.failure == nil {
		f.ring.Close(false)
	}
	if err := f.seg.Close(); err != nil {
		return fmt.Errorf("source %s: %w", f.name, err)
	}
	return nil
}
