package livetest

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"ringlet/event"
	"ringlet/source/live"
)

// Feed is a live.Feed. Its methods Send, End and Fail play the front-end; they may be called from any goroutine, before
// the feed is opened too.
type Feed struct {
	Settings     live.FeedSettings // what it was opened with
	FrontendName string            // who its front-end says it is

	safe     atomic.Uint64
	consumed atomic.Uint64
	closed   atomic.Bool

	mu        sync.Mutex // guards the rest
	queued    []live.Fragment
	handedOut []live.Fragment // given and not done
	err       error
	woken     chan struct{} // closed when there is something to give
	stats     live.Stats
	givenUp   []live.GivenUpRange
	resumeAt  uint64
}

// New makes a feed that has nothing yet.
func New() *Feed { return &Feed{woken: make(chan struct{})} }

// Data is what fragments of an event hold, unless the test says otherwise: size bytes that depend on source and event.
func Data(source uint16, e uint64, size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(uint64(source)*31 + e*7 + uint64(i))
	}
	return data
}

// Send gives fragments of so many bytes with these event numbers. It does not wait.
func (f *Feed) Send(source uint16, size int, events ...uint64) {
	for _, e := range events {
		f.enqueue(live.Fragment{Event: e, Type: 51, Data: Data(source, e, size)})
	}
}

func (f *Feed) enqueue(fragment live.Fragment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queued = append(f.queued, fragment)
	f.stats.Fragments++
	f.stats.Bytes += uint64(len(fragment.Data))
	f.wake()
}

// End says that the front-end's run is over, behind what was sent.
func (f *Feed) End() { f.Fail(io.EOF) }

// Fail ends the feed with an error, behind what was sent.
func (f *Feed) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	f.wake()
}

func (f *Feed) wake() {
	close(f.woken)
	f.woken = make(chan struct{})
}

// Acknowledged is below which event everything is safe.
func (f *Feed) Acknowledged() uint64 { return f.safe.Load() }

// Consumed is how many fragments were taken, whatever became of them.
func (f *Feed) Consumed() uint64 { return f.consumed.Load() }

// Closed tells whether the feed was closed.
func (f *Feed) Closed() bool { return f.closed.Load() }

// Next is live.Feed's.
func (f *Feed) Next(ctx context.Context, dst []live.Fragment) (int, error) {
	for {
		f.mu.Lock()
		n := copy(dst, f.queued)
		f.queued, f.handedOut = f.queued[n:], append(f.handedOut, f.queued[:n]...)
		err, woken := f.err, f.woken
		f.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case err != nil:
			return 0, err
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// ReleaseFragments is live.Feed's. The memory is spoiled, so that whoever still reads it is found out.
func (f *Feed) ReleaseFragments(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.handedOut[:n] {
		data := f.handedOut[i].Data
		for j := range data {
			data[j] = 0xDD
		}
	}
	f.handedOut = f.handedOut[n:]
	f.consumed.Add(uint64(n))
}

// SetResumeEvent is live.Feed's.
func (f *Feed) SetResumeEvent(e uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumeAt = e
}

// Resumed is where the front-end would be asked to go on.
func (f *Feed) Resumed() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resumeAt
}

// Frontend is live.FrontendNamer's.
func (f *Feed) Frontend() string { return f.FrontendName }

// ReportGivenUp is live.Feed's. It is an error to tell of an event that was said to be safe.
func (f *Feed) ReportGivenUp(from, to uint64, why live.Fault) {
	if to <= from || why != live.FaultBackwards && from < f.safe.Load() {
		panic("what is safe was given up")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.givenUp = append(f.givenUp, live.GivenUpRange{From: from, To: to, Fault: why})
}

// GivenUp is what ReportGivenUp was told, in order.
func (f *Feed) GivenUp() []live.GivenUpRange {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.givenUp)
}

// SetSafeBelow is live.Feed's.
func (f *Feed) SetSafeBelow(e uint64) {
	if before := f.safe.Swap(e); before > e || e == event.EndOfRun {
		panic("what is safe goes back")
	}
}

// Stats is live.Feed's.
func (f *Feed) Stats() live.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Close is live.Feed's.
func (f *Feed) Close() error {
	f.closed.Store(true)
	return nil
}
