package barrier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Signaler sends a small payload to a rank: reliably, exactly as given, without blocking (it queues or fails) and
// without keeping the payload after it returned. It may call Deliver of this or another barrier before it returns.
type Signaler interface {
	Signal(to int, payload []byte) error
}

// defaultInquiryDuration is the default of Options.InquiryDuration: far above the round trips of an inquiry (2⌈log₂N⌉
// hops of about 0.1 ms each), far below the time in which a run must end after the loss of a node (10 s).
const defaultInquiryDuration = 500 * time.Millisecond

// Options of a Barrier.
type Options struct {
	// Timeout is how long Enter waits before it asks which ranks are missing. Zero: it waits until its context ends, and
	// never asks.
	Timeout time.Duration
	// Slack is how many epochs a rank may have entered beyond the slowest rank, in addition to the one it waits in: Enter
	// of epoch e blocks until every rank has entered e−Slack. All ranks must have the same Slack.
	Slack int
	// InquiryDuration is how long an inquiry collects answers after the time-out. Zero: defaultInquiryDuration.
	InquiryDuration time.Duration
}

// Stats are the counters of a Barrier: those of its core and of its shell.
type Stats struct {
	Counters
	Malformed  uint64 `help:"payloads that are no barrier message"`
	Spoofed    uint64 `help:"messages that name a false sender"`
	AfterClose uint64 `help:"payloads that came after the barrier was closed"`
	Timeouts   uint64 `help:"inquiries begun: a rank did not enter in time"`
	SendFailed uint64 `help:"messages that the link refused to send"`
}

// Barrier is the shell around a Core: it blocks the goroutine in Enter, sends the core's messages, and keeps the time.
// It has no goroutine of its own.
//
// A message is handled by the goroutine that calls Deliver: it parses the message, steps the core, sends the messages
// that the step has queued, and wakes Enter if released. One goroutine sends at a time; another one leaves its messages
// in the queue to it. So a Signaler may call Deliver directly, and the depth of calls stays bounded. Nothing is
// allocated per epoch.
type Barrier struct {
	// Immutable after New.
	signaler        Signaler
	timeout         time.Duration
	inquiryDuration time.Duration
	rank            int
	initialRanks    int // number of ranks before the first change of members
	kind            Kind
	clockStart      time.Time     // zero of the core's clock
	wake            chan struct{} // capacity 1: makes Enter look at the state again
	done            chan struct{} // closed by Close

	// Owned by the goroutine inside Enter.
	timer *time.Timer

	// Owned by the goroutine that set sending.
	sendBuf [MessageSize]byte

	mu           sync.Mutex
	epochs       openEpochs // guarded by mu
	actions      Actions    // guarded by mu; Send is the queue of messages
	sentCount    int        // guarded by mu; how many of actions.Send are sent
	sending      bool       // guarded by mu
	inEnter      bool       // guarded by mu
	closed       bool       // guarded by mu
	awaitedEpoch uint64     // guarded by mu; the epoch that Enter waits for, if awaiting
	awaiting     bool       // guarded by mu; Enter waits for an epoch
	enterGaveUp  bool       // guarded by mu; the last Enter gave up waiting for awaitedEpoch
	firstSendErr error      // guarded by mu; the first *sendError
	stats        Stats      // guarded by mu; without the core's counters
	offered      uint32     // guarded by mu

	// members of the barrier: see generations.go; guarded by mu
	generation         uint64 // number of the present generation
	members            []int  // rank at each index; nil: index and rank are equal
	dissolved          bool   // no rank waits in this generation any longer
	changeCount        uint64 // number of changes known
	pendingGenerations []generation
	earlyMessages      []earlyMessage
	queuedWithRanks    int // messages in the queue with ranks instead of indices
}

// New returns a shell around core and takes the core over.
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
// Errors: the context's (wrapped, with its cause), *TimeoutError, *sendError, errBusy, ErrClosed. After the context's
// or a *TimeoutError the rank is still inside the epoch, and the next Enter goes on waiting there.
func (b *Barrier) Enter(ctx context.Context) (epoch uint64, wait time.Duration, err error) {
	return b.enterAndWait(ctx, false)
}

// Finish blocks until every rank has entered all epochs that this rank has entered; with slack Enter leaves the last
// ones open. It returns the stragglers of those epochs, in order, and none if the generation is dissolved. Call it
// instead of a further Enter; its errors are the same.
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

// enterAndWait enters the next epoch, unless finish is true, and waits for the epoch that is then due.
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

// now is the core's clock, µs. It is read under mu, so that it never goes back from step to step.
func (b *Barrier) now() int64 { return time.Since(b.clockStart).Microseconds() }

// beginEpoch enters an epoch and sends, unless an earlier Enter has entered it, or finish is true. It reports whether
// there is nothing to wait for.
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

// waitOver reports whether Enter has nothing left to wait for. The caller holds mu.
func (b *Barrier) waitOver() bool { return !b.awaiting || b.epochs.isReleased(b.awaitedEpoch) }

// endWait notes whether Enter gave up. Then the next Enter waits for the same epoch, even if it has been released
// meanwhile, and does not enter another one.
func (b *Barrier) endWait(err error) {
	b.timer.Stop()
	b.mu.Lock()
	b.inEnter = false
	b.enterGaveUp = err != nil
	b.mu.Unlock()
}

// await blocks until the rank has left the epoch, or an error ends the wait.
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
		// A release that came at the same time has precedence.
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

// startInquiry asks which ranks are missing.
func (b *Barrier) startInquiry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Timeouts++
	b.epochs.coreOf(b.awaitedEpoch).startInquiry(&b.actions)
	b.flush()
}

// concludeInquiry returns the result, unless the release has come since await looked.
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

// Deliver takes the payload of a barrier signal from the given rank. It never blocks, if the Signaler does not. Errors:
// *formatError, *messageError, ErrClosed; each is counted, and the message has then changed nothing.
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
			"its generation has not begun here, and too many early messages are already kept")
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
	released := b.actions.Released && m.Epoch == b.awaitedEpoch // other epochs need wake no goroutine
	b.flush()
	if released {
		// After flush: this rank must not queue messages of the next phase before it has released the others.
		b.signalWake()
	}
	return nil
}

// flush sends the queue. The caller holds mu; flush unlocks it while the Signaler runs.
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

// sendFailed makes Enter fail after a lost arrival or release. A lost query or reply is like a rank that does not
// answer, which the inquiry takes into account.
func (b *Barrier) sendFailed(m Message, err error) {
	b.stats.SendFailed++
	if m.Kind != kindArrive && m.Kind != kindRelease || b.firstSendErr != nil || m.Epoch>>generationShift != b.generation {
		return
	}
	b.firstSendErr = &sendError{Message: m, Err: err}
	b.signalWake()
}

// signalWake makes the goroutine in Enter look at the state; one pending hint is enough.
func (b *Barrier) signalWake() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// SetOffer sets this rank's offer for the epochs that it enters from now on: a number, of which all ranks learn the
// smallest (Straggler.MinOffer). Before the first SetOffer it is 0.
func (b *Barrier) SetOffer(n uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offered = n
	b.epochs.setOffer(n)
}

// LastStraggler returns the straggler of the epoch that this rank left last: until the next Enter, of the epoch that
// Enter has returned.
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

// Close wakes a blocked Enter, which returns ErrClosed, and refuses later messages. It may be called more than once,
// and returns nil.
func (b *Barrier) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	return nil
}
