package barrier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Signaler sends a small payload to a rank: reliably, exactly as given, without
// blocking (it queues or fails) and without keeping the payload after it
// returned. It may call Deliver of this or another barrier before it returns.
type Signaler interface {
	Signal(to int, payload []byte) error
}

// defaultInquiryDuration is the grace where Options leave it zero: far above the round
// trips of an inquiry (2⌈log₂N⌉ hops of about 0.1 ms each), far below
// the time in which a run has to end after the loss of a node (10 s).
const defaultInquiryDuration = 500 * time.Millisecond

// Options of a Barrier.
type Options struct {
	// Timeout is how long Enter waits before it asks who is missing. Zero: it
	// waits until its context ends, and never asks.
	Timeout time.Duration
	// Slack is how many epochs a rank may have entered that others have not, beyond the one it waits in: Enter of epoch
	// e then blocks until every rank has entered e−Slack. All ranks must have the same.
	Slack int
	// InquiryDuration is how long the inquiry then collects answers. Zero: defaultInquiryDuration.
	InquiryDuration time.Duration
}

// Stats are the counters of a Barrier: those of its core and of its shell.
type Stats struct {
	Counters
	Malformed  uint64 `help:"payloads that are no barrier message"`
	Spoofed    uint64 `help:"messages whose sender is not the rank they came from"`
	AfterClose uint64 `help:"payloads that came after the barrier was closed"`
	Timeouts   uint64 `help:"inquiries begun: somebody did not enter in time"`
	SendFailed uint64 `help:"messages that the link did not take"`
}

// Barrier is the shell around a Core: it blocks the goroutine in Enter, sends
// what the core wants sent, and keeps the time. It has no goroutine of its own.
//
// Way of a message, on the goroutine that calls Deliver: parse, step the core,
// wake Enter if released, send what the step asks for. One goroutine sends at a
// time; whoever finds it sending leaves its messages in the queue to it. So a
// Signaler may call Deliver directly, and the depth of calls stays bounded.
// Nothing is allocated per epoch.
type Barrier struct {
	// Immutable after New.
	signaler        Signaler
	timeout         time.Duration
	inquiryDuration time.Duration
	rank            int
	initialRanks    int // in the beginning
	kind            Kind
	clockStart      time.Time     // where the core's clock begins
	wake            chan struct{} // capacity 1: a hint to look at the state again
	done            chan struct{} // closed by Close

	// Owned by the goroutine inside Enter.
	timer *time.Timer

	// Owned by the goroutine that set sending.
	sendBuf [MessageSize]byte

	mu           sync.Mutex
	epochs       openEpochs // guarded by mu
	actions      Actions    // guarded by mu; Send is the queue of messages to be sent
	sentCount    int        // guarded by mu; how many of acts.Send are sent
	sending      bool       // guarded by mu
	inEnter      bool       // guarded by mu
	closed       bool       // guarded by mu
	awaitedEpoch uint64     // guarded by mu; the epoch that Enter waits for, if open
	awaiting     bool       // guarded by mu; there is one
	enterGaveUp  bool       // guarded by mu; an Enter gave up, waiting for until
	firstSendErr error      // guarded by mu; the first *sendError
	stats        Stats      // guarded by mu; without the core's part
	offered      uint32     // guarded by mu

	// who takes part: see generations.go; guarded by mu
	generation         uint64 // number of the present one
	members            []int  // rank at each index; nil: every rank has that of its number
	dissolved          bool   // nobody waits in it any more
	changeCount        uint64 // so many changes are known
	pendingGenerations []generation
	earlyMessages      []earlyMessage
	queuedWithRanks    int // messages in the queue that have ranks for indices
}

// New returns the shell around core, which it owns from now on.
func New(core *Core, signaler Signaler, opts Options) *Barrier {
	if opts.InquiryDuration == 0 {
		opts.InquiryDuration = defaultInquiryDuration
	}
	b := &Barrier{
		signaler:        signaler,
		timeout:         opts.Timeout,
		inquiryDuration: opts.InquiryDuration,
		rank:            core.rank,
		initialRanks:    core.n,
		kind:            core.kind,
		clockStart:      time.Now(),
		wake:            make(chan struct{}, 1),
		done:            make(chan struct{}),
		timer:           time.NewTimer(time.Hour),
		epochs:          newOpenEpochs(core, opts.Slack),
	}
	b.timer.Stop()
	b.actions.Send = make([]Message, 0, core.algorithm.maxMessages()*(1+opts.Slack))
	return b
}

// Enter enters the next epoch, e, and blocks until every rank has entered it; with slack, until every rank has entered
// e−Slack. It returns the epoch and how long it was blocked. For kind None, for N = 1, and in the first Slack epochs it
// returns at once.
//
// Errors: the context's (wrapped, with its cause), *TimeoutError, *sendError,
// errBusy, ErrClosed. After the context's or a *TimeoutError the rank is still
// inside the epoch, and Enter called again goes on waiting there.
func (b *Barrier) Enter(ctx context.Context) (epoch uint64, wait time.Duration, err error) {
	return b.enterAndWait(ctx, false)
}

// Finish blocks until every rank has entered all epochs that this one has entered: with slack Enter leaves the last
// ones open. It tells who held those, in their order; of a generation that is no more it tells nothing. It is called
// instead of a further Enter, and its errors are the same.
func (b *Barrier) Finish(ctx context.Context) ([]Straggler, error) {
	for range b.epochs.cores {
		if _, _, err := b.enterAndWait(ctx, true); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dissolved {
		return nil, nil
	}
	last := b.epochs.finalStragglers()
	for i := range last {
		last[i].Rank = b.rankOf(last[i].Rank)
	}
	return last, nil
}

// enterAndWait enters the next epoch, unless all is to be finished, and waits for the one that is due then.
func (b *Barrier) enterAndWait(ctx context.Context, finish bool) (epoch uint64, wait time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, fmt.Errorf("rank %d does not enter the barrier: %w", b.rank, context.Cause(ctx))
	}
	epoch, over, err := b.beginEpoch(finish)
	if errors.Is(err, errBusy) || errors.Is(err, ErrClosed) {
		return 0, 0, err
	}
	if over || err != nil {
		b.endWait(err)
		return epoch, 0, err
	}
	start := time.Now()
	err = b.await(ctx, start)
	wait = time.Since(start)
	b.endWait(err)
	return epoch, wait, err
}

// now is the core's clock. It is read under mu, so that it never goes back from
// step to step.
func (b *Barrier) now() int64 { return time.Since(b.clockStart).Microseconds() }

// beginEpoch enters an epoch, unless an earlier Enter has done so or all is to be finished, and sends. It reports
// whether there is nothing to wait for.
func (b *Barrier) beginEpoch(finish bool) (epoch uint64, over bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, false, ErrClosed
	}
	if b.inEnter {
		return 0, false, errBusy
	}
	b.inEnter = true
	epoch = b.epochs.nextEpoch
	switch {
	case b.dissolved:
		return epoch, true, nil
	case b.firstSendErr != nil:
		return epoch, false, b.firstSendErr
	case b.enterGaveUp:
		return epoch - 1, b.waitOver(), nil
	case finish:
		b.awaitedEpoch, b.awaiting = b.epochs.oldestOpen()
		return epoch, b.waitOver(), nil
	}
	b.awaitedEpoch, b.awaiting, err = b.epochs.enter(b.now(), &b.actions)
	if err != nil {
		return epoch, false, err
	}
	b.flush()
	return epoch, b.waitOver(), b.firstSendErr
}

// waitOver reports whether Enter has nothing to wait for any more. mu is held.
func (b *Barrier) waitOver() bool { return !b.awaiting || b.epochs.isReleased(b.awaitedEpoch) }

// endWait remembers an epoch that Enter has not met the end of: a release that
// comes before the next Enter must not make that one enter the epoch after.
func (b *Barrier) endWait(err error) {
	b.timer.Stop()
	b.mu.Lock()
	b.inEnter = false
	b.enterGaveUp = err != nil
	b.mu.Unlock()
}

// await blocks until the epoch was left or cannot be waited for any longer.
func (b *Barrier) await(ctx context.Context, start time.Time) error {
	if b.timeout > 0 {
		b.timer.Reset(b.timeout)
	}
	for inquiring := false; ; {
		var over error
		expired := false
		select {
		case <-b.wake:
		case <-ctx.Done():
			over = fmt.Errorf("rank %d gave up in barrier epoch %d: %w", b.rank, b.awaitedEpoch, context.Cause(ctx))
		case <-b.done:
			over = ErrClosed
		case <-b.timer.C:
			expired = true
		}
		// A release that came with the rest is worth more than the rest.
		if released, err := b.checkState(); released || err != nil {
			return err
		}
		switch {
		case over != nil:
			return over
		case expired && inquiring:
			return b.concludeInquiry(start)
		case expired:
			inquiring = true
			b.startInquiry()
			b.timer.Reset(b.inquiryDuration)
		}
	}
}

func (b *Barrier) checkState() (released bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waitOver(), b.firstSendErr
}

// startInquiry begins the inquiry.
func (b *Barrier) startInquiry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Timeouts++
	b.epochs.coreOf(b.awaitedEpoch).startInquiry(&b.actions)
	b.flush()
}

// concludeInquiry ends it, unless the release came since await looked.
func (b *Barrier) concludeInquiry(start time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waitOver() {
		return nil
	}
	core := b.epochs.coreOf(b.awaitedEpoch)
	return &TimeoutError{
		Rank:       b.rank,
		Epoch:      b.awaitedEpoch,
		Waited:     time.Since(start),
		Missing:    b.ranksOf(core.missingRanks()),
		WaitingFor: b.ranksOf(core.waitingFor()),
	}
}

// Deliver takes the payload of a barrier signal that came from the given rank.
// It never blocks, as far as the Signaler does not. Errors: *formatError,
// *messageError, ErrClosed; each is counted, and none has changed anything.
func (b *Barrier) Deliver(from int, payload []byte) error {
	m, err := parseMessage(payload)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		b.stats.AfterClose++
		return ErrClosed
	case err != nil:
		b.stats.Malformed++
		return fmt.Errorf("from rank %d: %w", from, err)
	case int(m.From) != from:
		b.stats.Spoofed++
		return &messageError{
			Rank:    b.rank,
			Epoch:   b.epochs.coreOf(m.Epoch).currentEpoch(),
			Message: m,
			Reason:  errWrongRank,
			Detail:  fmt.Sprintf("it came from rank %d", from),
		}
	}
	number := m.Epoch >> generationShift
	m.Epoch &= epochMask
	switch {
	case number > b.generation && b.keepEarly(number, m):
		return nil
	case number > b.generation:
		return b.epochs.cores[0].refuse(m, errImpossibleEpoch,
			"its generation has not begun here, and too much of it is kept already")
	case number < b.generation, b.dissolved:
		b.epochs.cores[0].counters.Late++
		return nil
	case !b.ranksToIndices(&m):
		return b.epochs.cores[0].refuse(m, errWrongRank, "it takes no part in this generation")
	}
	b.actions.Released = false
	if err := b.epochs.receive(m, b.now(), &b.actions); err != nil {
		return err
	}
	released := b.actions.Released && m.Epoch == b.awaitedEpoch // by others nobody need be woken
	b.flush()
	if released {
		// Only now: what this rank sends in the next phase must not be queued before the release of others.
		b.signalWake()
	}
	return nil
}

// flush sends the queue. The caller holds mu and holds it again afterwards; it
// is free while the Signaler runs.
func (b *Barrier) flush() {
	b.addressQueued()
	if b.sending {
		return
	}
	b.sending = true
	for b.sentCount < len(b.actions.Send) {
		m := b.actions.Send[b.sentCount]
		b.sentCount++
		putMessage(b.sendBuf[:], m)
		b.mu.Unlock()
		err := b.signaler.Signal(int(m.To), b.sendBuf[:])
		b.mu.Lock()
		if err != nil {
			b.sendFailed(m, err)
		}
	}
	b.actions.Send = b.actions.Send[:0]
	b.sentCount, b.queuedWithRanks = 0, 0
	b.sending = false
}

// sendFailed ends the epoch for a lost arrival or release. A lost query or reply
// is as good as a rank that does not answer, which the inquiry knows.
func (b *Barrier) sendFailed(m Message, err error) {
	b.stats.SendFailed++
	if m.Kind != kindArrive && m.Kind != kindRelease || b.firstSendErr != nil || m.Epoch>>generationShift != b.generation {
		return
	}
	b.firstSendErr = &sendError{Message: m, Err: err}
	b.signalWake()
}

// signalWake makes the goroutine in Enter look at the state; a hint not yet taken
// serves for both.
func (b *Barrier) signalWake() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// SetOffer says what this rank tells the others in the epochs that it enters from now on: a number, of which all
// learn the smallest (Straggler.MinOffer). Before the first SetOffer it is 0.
func (b *Barrier) SetOffer(n uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offered = n
	b.epochs.setOffer(n)
}

// LastStraggler tells who held the epoch that was left last. Until the next Enter it speaks
// of the epoch that Enter has returned.
func (b *Barrier) LastStraggler() Straggler {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dissolved {
		return Straggler{Rank: Nobody}
	}
	last := b.epochs.lastStraggler()
	last.Rank = b.rankOf(last.Rank)
	return last
}

// Stats returns a copy of all counters.
func (b *Barrier) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Counters = *b.epochs.cores[0].counters
	return s
}

// Close wakes a blocked Enter, which returns ErrClosed, and refuses what comes
// later. It may be called more than once, and returns nil.
func (b *Barrier) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	return nil
}
