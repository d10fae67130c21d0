package record

import (
	"sync/atomic"
	"time"
)

// answerTimeout is how long a call waits for the disk. A transaction takes milliseconds; on a disk that is busy with
// the output of a run it may take seconds.
const answerTimeout = 3 * time.Second

// waitTicks are how many parts the wait has. Each counts once, however long it was: while this process stands still,
// the disk has no chance to answer.
const waitTicks = 10

// boundedTx has a transaction carried out, and waits for it no longer than answerTimeout: a disk that hangs holds up
// nobody. What was not waited for may come about all the same, when the disk answers again; until then every call
// fails at once. The function may still be at work after an error, so what it writes to is read only without one.
type boundedTx struct {
	// immutable
	path      string
	timeout   time.Duration
	newTicker func(time.Duration) *time.Ticker // tests give ticks

	slots     chan struct{} // held by a transaction under way: writers wait here, and not where nothing ends it
	abandoned atomic.Int64  // transactions that nobody waits for any more, and that go on
}

func newBoundedTx(path string, concurrency int) boundedTx {
	return boundedTx{
		path:      path,
		timeout:   answerTimeout,
		newTicker: time.NewTicker,
		slots:     make(chan struct{}, concurrency),
	}
}

// Where a transaction is that somebody may have stopped waiting for.
const (
	txRunning int32 = iota
	txAnswered
	txAbandoned
)

// run carries a transaction out. The error is a *BusyError where the disk does not answer.
func (b *boundedTx) run(f func() error) error {
	if b.abandoned.Load() > 0 {
		return &BusyError{b.path, b.timeout}
	}
	look := b.newTicker(b.timeout / waitTicks)
	defer look.Stop()
	remaining := waitTicks
	for entered := false; !entered; {
		select {
		case b.slots <- struct{}{}:
			entered = true
		case <-look.C:
			if remaining--; remaining == 0 {
				return &BusyError{b.path, b.timeout}
			}
		}
	}
	var state atomic.Int32
	done := make(chan error, 1)
	go func() {
		err := f()
		<-b.slots
		if !state.CompareAndSwap(txRunning, txAnswered) {
			b.abandoned.Add(-1)
		}
		done <- err
	}()
	for remaining > 0 {
		select {
		case err := <-done:
			return err
		case <-look.C:
			remaining--
		}
	}
	b.abandoned.Add(1)
	if state.CompareAndSwap(txRunning, txAbandoned) {
		return &BusyError{b.path, b.timeout}
	}
	b.abandoned.Add(-1)
	return <-done // it came at the last moment
}
