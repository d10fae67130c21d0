package record

import (
	"sync/atomic"
	"time"
)

// answerTimeout is how long a call waits for the disk. A transaction takes milliseconds; on a disk that is busy with
// the output of a run it may take seconds.
const answerTimeout = 3 * time.Second

// waitTicks is the number of ticks in the wait. A tick counts once, however late it comes: while this process is
// suspended, the disk cannot answer it.
const waitTicks = 10

// boundedTx runs transactions, and waits for each no longer than answerTimeout, so that a disk that hangs does not hold
// up the caller. A transaction that timed out may still succeed when the disk answers again; until then every call
// fails at once. Since its function may still run after an error, the caller must not read its results then.
type boundedTx struct {
	// immutable
	path      string
	timeout   time.Duration
	newTicker func(time.Duration) *time.Ticker // replaced in tests

	slots     chan struct{} // one element for each transaction under way; waiting here has a time-out, in bbolt it has not
	abandoned atomic.Int64  // transactions that have timed out and still run
}

func newBoundedTx(path string, concurrency int) boundedTx {
	return boundedTx{
		path:      path,
		timeout:   answerTimeout,
		newTicker: time.NewTicker,
		slots:     make(chan struct{}, concurrency),
	}
}

// States of a transaction.
const (
	txRunning int32 = iota
	txAnswered
	txAbandoned
)

// run runs a transaction. The error is a *BusyError if the disk does not answer in time.
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
	return <-done // it was done at the last moment
}
