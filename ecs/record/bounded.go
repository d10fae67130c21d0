package record

import (
	"sync/atomic"
	"time"
)

// answerTime is how long a call waits for the disk. A transaction takes milliseconds; on a disk that is busy with the
// output of a run it may take seconds.
const answerTime = 3 * time.Second

// looks are how many parts the wait has. Each counts once, however long it was: while this process stands still, the
// disk has no chance to answer.
const looks = 10

// bounded has a transaction carried out, and waits for it no longer than answerTime: a disk that hangs holds up
// nobody. What was not waited for may come about all the same, when the disk answers again; until then every call
// fails at once. The function may still be at work after an error, so what it writes to is read only without one.
type bounded struct {
	// immutable
	path     string
	patience time.Duration
	every    func(time.Duration) *time.Ticker // tests give ticks

	turn  chan struct{} // held by a transaction under way: writers wait here, and not where nothing ends it
	stuck atomic.Int64  // transactions that nobody waits for any more, and that go on
}

func newBounded(path string, beside int) bounded {
	return bounded{
		path:     path,
		patience: answerTime,
		every:    time.NewTicker,
		turn:     make(chan struct{}, beside),
	}
}

// Where a transaction is that somebody may have stopped waiting for.
const (
	underWay int32 = iota
	answered
	unawaited
)

// do carries a transaction out. The error is a *BusyError where the disk does not answer.
func (b *bounded) do(f func() error) error {
	if b.stuck.Load() > 0 {
		return &BusyError{b.path, b.patience}
	}
	look := b.every(b.patience / looks)
	defer look.Stop()
	left := looks
	for entered := false; !entered; {
		select {
		case b.turn <- struct{}{}:
			entered = true
		case <-look.C:
			if left--; left == 0 {
				return &BusyError{b.path, b.patience}
			}
		}
	}
	var state atomic.Int32
	done := make(chan error, 1)
	go func() {
		err := f()
		<-b.turn
		if !state.CompareAndSwap(underWay, answered) {
			b.stuck.Add(-1)
		}
		done <- err
	}()
	for left > 0 {
		select {
		case err := <-done:
			return err
		case <-look.C:
			left--
		}
	}
	b.stuck.Add(1)
	if state.CompareAndSwap(underWay, unawaited) {
		return &BusyError{b.path, b.patience}
	}
	b.stuck.Add(-1)
	return <-done // it came at the last moment
}
