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

// feedbackSender tells outcomes to the scheduler, once the builder unit has attached to it. A stream that breaks is its
// client's matter, which resumes it. A builder unit that was excluded drops what it has to tell, since its MEPs are
// given to others, and tries to come back; so does one whose view was given up, since they have their outcome, and
// does not.
type feedbackSender struct {
	// immutable after attach
	dial      func(context.Context) (*tagnet.BUClient, error)
	freeSlots func(ctx context.Context, exclusions uint32) error // frees the builder unit's slots
	cancel    context.CancelFunc
	// closed when nothing more is heard of the scheduler. A unit that is excluded may come back, and goes on listening
	sessionEnded chan struct{}
	wg           sync.WaitGroup

	entries []core.Feedback // scratch of whoever tells: one at a time

	// immutable: onSuperseded is told of results that nobody wanted, and onReported, if not nil, of those that the
	// scheduler knows of, by whoever tells; onRunEnding of that no further MEPs come than those that were issued
	onSuperseded, onReported func([]builderunit.MEPResult)
	onRunEnding              func()

	feedbackCounters
	excluded atomic.Bool // it is excluded now

	client atomic.Pointer[tagnet.BUClient]
	// reporting is held by whoever reports, and while it attaches: what is to be told meanwhile is for the new client
	reporting sync.Mutex
}

type feedbackCounters struct {
	Unreported atomic.Uint64 `count:"untold" help:"outcomes that an excluded builder unit had, and that nobody wanted any more"`
	Exclusions atomic.Uint64 `help:"times that the builder unit was excluded"`
}

func newFeedbackSender(onSuperseded, onReported func([]builderunit.MEPResult), onRunEnding func()) *feedbackSender {
	f := &feedbackSender{
		sessionEnded: make(chan struct{}),
		onSuperseded: onSuperseded,
		onReported:   onReported,
		onRunEnding:  onRunEnding,
	}
	f.reporting.Lock() // until it is attached
	return f
}

// attach attaches to the scheduler, which ctx bounds, and from then on until Close.
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

// flushTimeout bounds how long a builder unit that ends waits until the scheduler has acknowledged what it was told: a
// stream that has just broken is resumed by then, or never.
const flushTimeout = tagnet.DefaultResumeTimeout + time.Second

// Close waits until the scheduler has every outcome that it was told, or has ended the session, and ends it. The
// error says what the scheduler does not have: it takes that for not built.
func (f *feedbackSender) Close() error {
	f.cancel()
	f.wg.Wait()
	client := f.client.Load()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := client.Flush(ctx)
	if viewOver(err) {
		err = nil // nobody wants to know any more
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

// viewOver tells from the end of a session that nobody waits for outcomes any more: the unit is excluded, or the
// view was given up.
func viewOver(err error) bool {
	return refusedFor(err, core.RefusedExcluded) || refusedFor(err, core.RefusedUntilReset) || errors.Is(err, io.EOF)
}

// refusedFor tells whether the scheduler has refused for that reason.
func refusedFor(err error, why core.Refusal) bool {
	var remote *tagnet.RemoteError
	return errors.As(err, &remote) && remote.Refusal == why
}

// excludedMidSession tells that the scheduler has ended a session since the unit is excluded, and not refused to
// begin one.
func excludedMidSession(err error) bool {
	return refusedFor(err, core.RefusedExcluded) && status.Code(errors.Unwrap(err)) == codes.Aborted
}

// awaitEnd waits for the end of a session, and tells when the run ends; false says that ctx has ended.
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

// rejoinWhenExcluded comes back whenever the builder unit has been excluded.
func (f *feedbackSender) rejoinWhenExcluded(ctx context.Context) {
	for {
		client := f.client.Load()
		if !f.awaitEnd(ctx, client) {
			return
		}
		// A unit that was away while it was excluded and included again is told to free its slots when it comes back.
		reset := refusedFor(client.Err(), core.RefusedUntilReset)
		if !reset && !refusedFor(client.Err(), core.RefusedExcluded) {
			return // its end is the builder unit's matter, when it next has something to tell
		}
		f.Exclusions.Add(1)
		f.excluded.Store(true)
		if !f.rejoin(ctx, reset) {
			return
		}
		_ = client.Close() // it is over
		f.excluded.Store(false)
	}
}

// How often a builder unit that is excluded asks to come back, and how long an answer may take: hardly noticed by who
// types include, and a handshake costs 2 ms or so.
const (
	rejoinInterval = 200 * time.Millisecond
	rejoinTimeout  = 5 * time.Second
)

// rejoin attaches again when the scheduler lets it; false says that ctx has ended. The scheduler first says that the
// slots are to be freed, since nobody writes to them any more; before that they must be left alone.
func (f *feedbackSender) rejoin(ctx context.Context, reset bool) bool {
	for free := reset && f.freeSlots(ctx, uint32(f.Exclusions.Load())) == nil; ; {
		switch err := f.tryRejoin(ctx, free); {
		case err == nil:
			return true
		case refusedFor(err, core.RefusedUntilReset) && f.freeSlots(ctx, uint32(f.Exclusions.Load())) == nil:
			free = true
			continue
		case excludedMidSession(err): // it was in, and out again before it knew
			f.Exclusions.Add(1)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(rejoinInterval):
		}
	}
}

// tryRejoin attaches once. Where the slots are free, tokens may come at once, and what there is to tell of them waits
// for the new client.
func (f *feedbackSender) tryRejoin(ctx context.Context, free bool) error {
	if free {
		f.reporting.Lock()
		defer f.reporting.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, rejoinTimeout)
	defer cancel()
	client, err := f.dial(ctx)
	if err == nil && !free {
		_ = client.Close() // an answer was lost: the slots hold what they had, so this unit is given up
		err = errSlotsNotFreed
	}
	if err == nil {
		f.client.Store(client)
	}
	return err
}

var errSlotsNotFreed = errors.New("the builder unit was let in before it had freed its slots")
