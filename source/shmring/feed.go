package shmring

import (
	"cmp"
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

// livenessInterval is how long a feed trusts that a silent front-end lives, before it checks the front-end's lock.
const livenessInterval = 100 * time.Millisecond

// feed is a ring of this process that a front-end fills.
type feed struct {
	// immutable after Open
	name string
	log  *slog.Logger
	seg  *shmem.Segment
	// method values of readAvailable and checkAlive, kept so that a wait allocates none
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
	resume      uint64            // a front-end that attaches is to send from this event on
	hasResume   bool              // resume is known
	givenUp     live.GivenUpRange // given up, and not told to the front-end
	seen        [2]uint64         // of the ring's words of the run's life
	heldLogged  bool              // the log has said that a front-end's acknowledgements are held back

	life ringLife // has a lock of its own

	// atomic
	frontend, refusal                                            atomic.Pointer[string]
	fragments, bytes, dropped, refused, attachedCount, goneCount atomic.Uint64
}

var errClosed = errors.New("the source is closed")

// Open makes the ring that s.Address names, and does not wait: a front-end may attach from now on. It replaces a ring
// of that name whose maker was killed.
//
// Errors are *addressError and those of shmem.Create, with the source's name.
func Open(_ context.Context, s live.FeedSettings) (live.Feed, error) {
	a, err := parseAddress(s.Name, s.Address)
	if err != nil {
		return nil, err
	}
	largest := cmp.Or(s.MaxFragment, event.MaxNarrowFragment)
	size, err := a.ringSize(s.Name, largest)
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
	f.seg, f.ring, err = ring.Create(a.name, size, ring.Settings{
		Use:           ring.Fragments,
		LargestRecord: largest,
		Source:        s.SourceID,
		SourceName:    s.SourceName,
		HasLife:       true,
		Run:           s.Run,
	}, shmem.WithDir(a.dir))
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Name, err)
	}
	return f, nil
}

// Next implements live.Feed.
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
		// How long a sleep may be depends on the front-end, so each attachment begins a new one.
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

// readAvailable fills dst with the fragments that are in the ring, and says whether there were any.
func (f *feed) readAvailable() (bool, error) {
	state, attached := f.ring.ProducerState() // before reading: fragments written before the end are then seen
	f.noteArrivals(f.watch.update(state, attached, true))
	if now := [2]uint64{attached<<2 | uint64(state), f.ring.ReplyWord()}; now != f.seen {
		f.seen = now
		f.lookAtLife()
	}
	var bytes uint64
	var err error
	for f.filledCount < len(f.dst) {
		var r ring.Record
		var ok bool
		if r, ok, err = f.ring.Next(); !ok {
			break
		}
		f.dst[f.filledCount] = live.Fragment{
			Event: r.Number,
			Type:  event.BankType(r.Kind),
			Data:  r.Data,
			Words: event.Words(r.Words),
		}
		f.filledCount++
		bytes += uint64(len(r.Data))
	}
	f.updateCounters(bytes)
	switch {
	case f.filledCount > 0: // the ring returns an error again
		return true, nil
	case err != nil:
		return false, f.refuse(err)
	case state == ring.Ended:
		f.ring.AckEnd()
		return false, io.EOF
	}
	return false, nil
}

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

// refuse ends the source: the bytes in the ring break its format.
func (f *feed) refuse(err error) error {
	f.refused.Add(1)
	f.ring.Close(true)
	f.failure = fmt.Errorf("source %s: %w: the front-end has a fault, no fragment after this one can be trusted; "+
		"repair it and start a new run", f.name, err)
	why := err.Error()
	f.refusal.Store(&why)
	f.life.mu.Lock()
	f.life.failed = why
	f.life.mu.Unlock()
	f.log.Error("refused a front-end", "source", f.name, "frontend", f.Frontend(), "error", err)
	return f.failure
}

// errRecheck makes Next begin a new wait.
var errRecheck = errors.New("look again")

// checkAlive finds out whether the front-end that the ring shows as attached has died.
func (f *feed) checkAlive() error {
	now := time.Now()
	if now.Sub(f.lastCheck) < livenessInterval {
		return nil
	}
	f.lastCheck = now
	locked, err := f.seg.IsByteClaimed(ring.ProducerByte)
	if err != nil {
		return fmt.Errorf("source %s: cannot tell whether the front-end lives: %w", f.name, err)
	}
	// The state is loaded after the lock is checked: a front-end that is attached now and had no lock then has died, or
	// has just attached. One that has just attached shows in the number of attachments.
	state, attached := f.ring.ProducerState()
	f.noteArrivals(f.watch.update(state, attached, locked))
	return errRecheck
}

// Stats implements live.Feed.
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

// Close implements live.Feed.
func (f *feed) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	f.endLife()
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
