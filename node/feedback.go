package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/builderunit"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// feedbackSender reports outcomes to the scheduler, once the builder unit has attached. Its client resumes a stream
// that breaks. A builder unit that was excluded drops its outcomes, since other builder units get its MEPs, and tries
// to come back. One whose view was abandoned drops them too, since the MEPs have their outcome, and ends.
type feedbackSender struct {
	// immutable after attach
	dial      func(context.Context) (*tagnet.BUClient, error)
	freeSlots func(ctx context.Context, exclusions uint32) error // frees the builder unit's slots
	cancel    context.CancelFunc
	// how long a unit that ends waits for the scheduler's acknowledgements
	flushTimeout time.Duration
	// closed when the session with the scheduler is over; an excluded unit may come back, so its session is not
	sessionEnded chan struct{}
	wg           sync.WaitGroup

	entries []core.Feedback // scratch of report, under reporting

	// immutable. onSuperseded is called with results that the scheduler no longer wants; onReported, if not nil, with
	// those that it has; both under reporting. onRunEnding is called when the scheduler issues no new MEPs any more,
	// onExcluded when the unit was excluded.
	onSuperseded, onReported func([]builderunit.MEPResult)
	onRunEnding, onExcluded  func()

	feedbackCounters
	excluded atomic.Bool // the builder unit is excluded now

	client atomic.Pointer[tagnet.BUClient]
	// reporting is held during a report, and while the unit attaches: reports wait for the new client
	reporting sync.Mutex
}

type feedbackCounters struct {
	Unreported atomic.Uint64 `count:"untold" help:"outcomes of an excluded builder unit, not reported"`
	Exclusions atomic.Uint64 `help:"times that the builder unit was excluded"`
}

func newFeedbackSender(onSuperseded, onReported func([]builderunit.MEPResult), onRunEnding func(),
	flushTimeout time.Duration) *feedbackSender {
	f := &feedbackSender{
		flushTimeout: flushTimeout,
		sessionEnded: make(chan struct{}),
		onSuperseded: onSuperseded,
		onReported:   onReported,
		onRunEnding:  onRunEnding,
	}
	f.reporting.Lock() // until attach
	return f
}

// attach attaches to the scheduler, within ctx, and stays attached until Close.
func (f *feedbackSender) attach(ctx context.Context, dial func(context.Context) (*tagnet.BUClient, error),
	reset func(context.Context, uint32) error) error {
	defer f.reporting.Unlock()
	client, err := dial(ctx)
	if err != nil {
		return err
	}
	f.dial, f.freeSlots = dial, reset
	f.client.Store(client)
	rejoinCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	f.wg.Go(func() {
		defer close(f.sessionEnded)
		f.rejoinWhenExcluded(rejoinCtx)
	})
	return nil
}

// Close waits until the scheduler has acknowledged every outcome, or has ended the session, and ends the session. The
// error says that the scheduler lacks outcomes: it treats these MEPs as not built.
func (f *feedbackSender) Close() error {
	f.cancel()
	f.wg.Wait()
	client := f.client.Load()
	ctx, cancel := context.WithTimeout(context.Background(), f.flushTimeout)
	defer cancel()
	err := client.Flush(ctx)
	if viewOver(err) {
		err = nil // the scheduler no longer wants outcomes
	}
	if err != nil {
		err = fmt.Errorf("the scheduler has not acknowledged every outcome of this builder unit: %w", err)
	}
	return errors.Join(err, client.Close())
}

func (f *feedbackSender) report(results []builderunit.MEPResult) error {
	f.reporting.Lock()
	defer f.reporting.Unlock()
	client := f.client.Load()
	if client == nil {
		return errNoSuchUnit
	}
	f.entries = f.entries[:0]
	held := true
	for i := range results {
		held = held && results[i].ReportHeld
		f.entries = append(f.entries, results[i].Feedback)
	}
	send := client.SendFeedback
	if held {
		send = client.QueueFeedback
	}
	err := send(f.entries...)
	if viewOver(err) {
		f.Unreported.Add(uint64(len(results)))
		f.onSuperseded(results)
		return nil
	}
	if err == nil && f.onReported != nil {
		f.onReported(results)
	}
	return err
}

// viewOver tells from the end of a session that the scheduler no longer wants outcomes: the unit is excluded, or the
// view was abandoned.
func viewOver(err error) bool {
	return refusedFor(err, core.RefusedExcluded) || refusedFor(err, core.RefusedUntilReset) || errors.Is(err, io.EOF)
}

// refusedFor tells whether the scheduler has refused for that reason.
func refusedFor(err error, why core.Refusal) bool {
	var remote *tagnet.RemoteError
	return errors.As(err, &remote) && remote.Refusal == why
}

// excludedMidSession tells that the scheduler has ended a session because it excluded the unit, and not refused to
// begin one.
func excludedMidSession(err error) bool {
	return refusedFor(err, core.RefusedExcluded) && status.Code(errors.Unwrap(err)) == codes.Aborted
}

// awaitEnd waits for the end of a session, and calls onRunEnding when the run ends; false: ctx has ended.
func (f *feedbackSender) awaitEnd(ctx context.Context, client *tagnet.BUClient) bool {
	for draining := client.Draining(); ; {
		select {
		case <-draining:
			f.onRunEnding()
			draining = nil
		case <-client.Done():
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// rejoinWhenExcluded attaches again each time the builder unit was excluded.
func (f *feedbackSender) rejoinWhenExcluded(ctx context.Context) {
	for {
		client := f.client.Load()
		if !f.awaitEnd(ctx, client) {
			return
		}
		// A unit that was away while the control excluded and included it must free its slots before it attaches.
		reset := refusedFor(client.Err(), core.RefusedUntilReset)
		if !reset && !refusedFor(client.Err(), core.RefusedExcluded) {
			return // report returns the error when the builder unit next has results
		}
		f.Exclusions.Add(1)
		f.excluded.Store(true)
		f.onExcluded()
		if !f.rejoin(ctx, reset) {
			return
		}
		_ = client.Close() // its session is over
		f.excluded.Store(false)
	}
}

// How often an excluded builder unit asks to come back, and how long an answer may take. A person who includes a unit
// hardly notices the interval, and a handshake takes some 2 ms.
const (
	rejoinInterval = 200 * time.Millisecond
	rejoinTimeout  = 5 * time.Second
)

// rejoin attaches again when the scheduler admits the unit; false: ctx has ended. The scheduler first requests that the
// unit frees its slots, once no readout unit writes to them any more; before that the unit must not touch them.
func (f *feedbackSender) rejoin(ctx context.Context, reset bool) bool {
	for free := reset && f.freeSlots(ctx, uint32(f.Exclusions.Load())) == nil; ; {
		switch err := f.tryRejoin(ctx, free); {
		case err == nil:
			return true
		case refusedFor(err, core.RefusedUntilReset) && f.freeSlots(ctx, uint32(f.Exclusions.Load())) == nil:
			free = true
			continue
		case excludedMidSession(err): // the scheduler included and excluded the unit again before it knew
			f.Exclusions.Add(1)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(rejoinInterval):
		}
	}
}

// tryRejoin attaches once. If the slots are free, tokens may come at once, and reports wait for the new client.
func (f *feedbackSender) tryRejoin(ctx context.Context, free bool) error {
	if free {
		f.reporting.Lock()
		defer f.reporting.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, rejoinTimeout)
	defer cancel()
	f.excluded.Store(!free) // from now on the scheduler tells of readout units
	client, err := f.dial(ctx)
	if err == nil && !free {
		_ = client.Close() // an answer was lost: the slots still hold MEPs, so the unit gives up this session
		err = errSlotsNotFreed
	}
	if err == nil {
		f.client.Store(client)
		return nil
	}
	f.excluded.Store(true)
	f.onExcluded()
	return err
}

var errSlotsNotFreed = errors.New("the scheduler admitted the builder unit before it had freed its slots")
