package frames

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/event"
	"ringlet/internal/connlimit"
	"ringlet/source/live"
)

// feed is a live.Feed whose fragments come over one connection at a time.
type feed struct {
	// immutable after open
	set             live.FeedSettings
	store           *fragmentStore
	ctx             context.Context // ends with Close
	stop            context.CancelFunc
	addr            string        // where it listens
	secret          []byte        // a front-end must prove that it has it; nil: it need not
	restartPause    time.Duration // first pause before a program is started again
	takeoverTimeout time.Duration // how long a new connection waits for a dead one to end

	gate       connlimit.Gate // of connections: those without a hello make room
	eventLog   connlimit.LogLimiter
	crowdLog   connlimit.LogLimiter // of connections beyond the limits
	programLog connlimit.LogLimiter // of the program's standard error
	stats      counters
	wg         sync.WaitGroup // all goroutines

	mu               sync.Mutex // guards the rest
	state            runState
	session          *session // the attached one; nil: none is attached
	control          *control // of the program that runs; nil: none does
	err              error    // why this source cannot go on
	lastFrontend     string   // name and place of the front-end that was attached last
	sourceName       string   // how a front-end calls the source; "": none has said that
	life             live.Life
	busy             live.BusyCauses // why the readout unit is busy
	lastRefusal      string          // reason of the last refusal
	oldVersionWarned bool            // the log has said that a version-1 front-end cannot be told what was given up

	lastLine string // last line of the program's standard error
}

// counters are live.Stats while they are counted.
type counters struct {
	fragments, bytes, refused, repeated, attached, gone atomic.Uint64
}

// newFeed returns a feed without a source of connections. Only Close ends it, not the end of ctx.
func newFeed(ctx context.Context, set live.FeedSettings) *feed {
	if set.Log == nil {
		set.Log = slog.New(slog.DiscardHandler)
	}
	if set.MaxFragment == 0 {
		set.MaxFragment = event.MaxNarrowFragment
	}
	set.Log = set.Log.With("input", set.Name, "source", set.SourceID)
	f := &feed{
		set:             set,
		store:           newStore(StoreBytes(set.MaxFragment), maxQueuedFragments),
		gate:            connlimit.Gate{MaxTotal: maxConns, MaxPerHost: maxPerHost},
		eventLog:        connlimit.LogLimiter{Burst: connlimit.Burst},
		programLog:      connlimit.LogLimiter{Burst: maxLogLines},
		takeoverTimeout: maxTakeoverWait,
	}
	f.state.wraps = set.WrapBits > 0
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	return f
}

// Next implements live.Feed. It allocates nothing.
func (f *feed) Next(ctx context.Context, dst []live.Fragment) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if n := f.store.handOut(dst); n > 0 {
			return n, nil
		}
		f.mu.Lock()
		ended, err := f.state.ended, f.err
		f.mu.Unlock()
		if ended || err != nil {
			if n := f.store.handOut(dst); n > 0 { // queued before the end was reported
				return n, nil
			}
			if ended {
				return 0, io.EOF
			}
			return 0, err
		}
		select {
		case <-ctx.Done():
		case <-f.ctx.Done():
			return 0, &closedError{f.set.Name}
		case <-f.store.fragmentsQueued:
		}
	}
}

// closedError says that Next was called after Close.
type closedError struct{ name string }

func (e *closedError) Error() string { return "input " + e.name + " is closed" }

// ReleaseFragments implements live.Feed.
func (f *feed) ReleaseFragments(n int) { f.store.freeFragments(n) }

// SetResumeEvent implements live.Feed.
func (f *feed) SetResumeEvent(event uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.acceptedBelow = event
}

// ReportGivenUp implements live.Feed. The front-end learns of it before it learns that the events are safe.
func (f *feed) ReportGivenUp(from, to uint64, why live.Fault) {
	x := givenUpRange{
		from:   from,
		to:     to,
		count:  to - min(from, to),
		reason: faultReason(why),
	}
	f.mu.Lock()
	f.state.noteGivenUp(x)
	if s := f.session; s != nil && s.version > version1 {
		s.newGivenUp.add(x)
		wake(s.ackDue)
	}
	f.mu.Unlock()
	f.warnOldVersion()
}

// warnOldVersion warns once that a front-end of version 1 cannot be told what was given up.
func (f *feed) warnOldVersion() {
	f.mu.Lock()
	s := f.session
	warned := f.oldVersionWarned || s == nil || s.version > version1 || !f.state.isHeldBack
	held := f.state.heldBackFrom
	f.oldVersionWarned = f.oldVersionWarned || !warned
	f.mu.Unlock()
	if !warned {
		f.set.Log.Warn("a front-end cannot be told that fragments were given up, since it speaks version 1 of the format: "+
			"nothing from there on is acknowledged to it in this run. Take the clients of this Ringlet", "frontend", s.frontend,
			"event", held)
	}
}

// SetSafeBelow implements live.Feed.
func (f *feed) SetSafeBelow(event uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if event <= f.state.safeBelow {
		return
	}
	f.state.safeBelow = event
	if f.session != nil {
		wake(f.session.ackDue)
	}
}

// Frontend implements live.FrontendNamer.
func (f *feed) Frontend() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lastFrontend
}

// SourceName returns how a front-end calls the source; empty if none has said that.
func (f *feed) SourceName() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sourceName
}

// Explain returns the reason of the latest refusal of a front-end or a stranger; empty if there was none.
func (f *feed) Explain() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lastRefusal
}

// countRefusal counts a refusal and keeps its reason.
func (f *feed) countRefusal(who, why string) {
	f.stats.refused.Add(1)
	f.mu.Lock()
	f.lastRefusal = truncateSentence(who + ": " + why)
	f.mu.Unlock()
}

// Stats implements live.Feed.
func (f *feed) Stats() live.Stats {
	return live.Stats{
		Fragments:         f.stats.fragments.Load(),
		Bytes:             f.stats.bytes.Load(),
		RefusedMessages:   f.stats.refused.Load(),
		Repeated:          f.stats.repeated.Load(),
		FrontendsAttached: f.stats.attached.Load(),
		FrontendsGone:     f.stats.gone.Load(),
	}
}

// Close implements live.Feed. The front-end is told a last time what is safe.
func (f *feed) Close() error {
	f.Want(live.End)
	f.stop()
	f.wg.Wait()
	f.eventLog.LogUnreported(f.set.Log)
	f.crowdLog.LogUnreported(f.set.Log)
	return nil
}

// Addr returns where the feed listens: an address with its port, or a path. Empty if it does not listen.
func (f *feed) Addr() string { return f.addr }

// fail tells Next that this source cannot go on.
func (f *feed) fail(err error) {
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	wake(f.store.fragmentsQueued)
}

// logEvent logs an event of the front-end, but rarely if the same event comes often.
func (f *feed) logEvent(level slog.Level, what string, args ...any) {
	f.logThrottled(&f.eventLog, level, what, args...)
}

func (f *feed) logThrottled(throttle *connlimit.LogLimiter, level slog.Level, what string, args ...any) {
	if suppressed, yes := throttle.Allow(what, time.Now()); yes {
		if suppressed > 0 {
			args = append(args, "unreported", suppressed)
		}
		f.set.Log.Log(f.ctx, level, what, args...)
	}
}

// sleep waits for d; false if the feed is closed before.
func (f *feed) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.ctx.Done():
		return false
	}
}
