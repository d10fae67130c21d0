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

// Feed is a live.Feed. The test calls Send, End and Fail in place of a front-end, from any goroutine, also before the
// feed is opened.
type Feed struct {
	Settings     live.FeedSettings // settings that the readout unit has opened it with
	FrontendName string            // name of its front-end

	safe     atomic.Uint64
	consumed atomic.Uint64
	closed   atomic.Bool

	mu        sync.Mutex // guards the rest
	queued    []live.Fragment
	handedOut []live.Fragment // returned by Next and not released
	err       error
	woken     chan struct{} // closed when there is a fragment or an error for Next
	stats     live.Stats
	givenUp   []live.GivenUpRange
	resumeAt  uint64
	busy      []live.BusyState
}

// New makes a feed without fragments.
func New() *Feed { return &Feed{woken: make(chan struct{})} }

// Data is the data of the fragments that Send makes: size bytes that depend on source and event.
func Data(source uint16, e uint64, size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(uint64(source)*31 + e*7 + uint64(i))
	}
	return data
}

// Send queues fragments of size bytes with these event numbers. It does not wait.
func (f *Feed) Send(source uint16, size int, events ...uint64) {
	for _, e := range events {
		f.enqueue(live.Fragment{Event: e, Type: 51, Data: Data(source, e, size)})
	}
}

// SendTriggers queues fragments of size bytes with these trigger numbers, and the data of these. They have event
// numbers from first on.
func (f *Feed) SendTriggers(source uint16, size int, first uint64, triggers ...uint64) {
	for i, n := range triggers {
		f.enqueue(live.Fragment{Event: first + uint64(i), Type: 51, Data: Data(source, n, size), Words: event.Words{
			HasTrigger: true,
			Trigger:    n,
		}})
	}
}

// SendStamped queues a fragment of size bytes with an event number of its own and a time stamp, and the data of event
// e.
func (f *Feed) SendStamped(source uint16, size int, own, stamp, e uint64) {
	f.enqueue(live.Fragment{Event: own, Type: 51, Data: Data(source, e, size), Words: event.Words{
		HasStamp: true,
		Stamp:    stamp,
	}})
}

func (f *Feed) enqueue(fragment live.Fragment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queued = append(f.queued, fragment)
	f.stats.Fragments++
	f.stats.Bytes += uint64(len(fragment.Data))
	f.wake()
}

// End ends the front-end's run, after the queued fragments.
func (f *Feed) End() { f.Fail(io.EOF) }

// Fail ends the feed with an error, after the queued fragments.
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

// SetBusy implements live.BusyListener.
func (f *Feed) SetBusy(s live.BusyState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = append(f.busy, s)
}

// BusyStates are the states that the feed was told, in order.
func (f *Feed) BusyStates() []live.BusyState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.busy)
}

// Acknowledged is the event below which all events are safe.
func (f *Feed) Acknowledged() uint64 { return f.safe.Load() }

// Consumed is how many fragments were released, whatever their outcome.
func (f *Feed) Consumed() uint64 { return f.consumed.Load() }

// Closed says whether the feed was closed.
func (f *Feed) Closed() bool { return f.closed.Load() }

// Next implements live.Feed.
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

// ReleaseFragments implements live.Feed. It overwrites the memory: code that still reads it finds wrong data.
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

// SetResumeEvent implements live.Feed.
func (f *Feed) SetResumeEvent(e uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumeAt = e
}

// Resumed is the event from which the readout unit would ask the front-end to continue.
func (f *Feed) Resumed() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resumeAt
}

// Frontend implements live.FrontendNamer.
func (f *Feed) Frontend() string { return f.FrontendName }

// ReportGivenUp implements live.Feed. It panics if an event in the range was reported as safe.
func (f *Feed) ReportGivenUp(from, to uint64, why live.Fault) {
	if to <= from || why != live.FaultBackwards && from < f.safe.Load() {
		panic("what is safe was given up")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.givenUp = append(f.givenUp, live.GivenUpRange{From: from, To: to, Fault: why})
}

// GivenUp are the ranges of ReportGivenUp, in order.
func (f *Feed) GivenUp() []live.GivenUpRange {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.givenUp)
}

// SetSafeBelow implements live.Feed. It panics if the event is below an earlier one.
func (f *Feed) SetSafeBelow(e uint64) {
	if before := f.safe.Swap(e); before > e || e == event.EndOfRun {
		panic("what is safe goes back")
	}
}

// Stats implements live.Feed.
func (f *Feed) Stats() live.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Close implements live.Feed.
func (f *Feed) Close() error {
	f.closed.Store(true)
	return nil
}
