package tagnet

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// maxEntriesPerMessage keeps a message of 21-byte entries below 32 KiB, as core.MaxTokensPerNotice does for tokens.
const maxEntriesPerMessage = 1536

// BUClient is a builder unit's end of the feedback stream. Any goroutine may call its methods. It resumes a stream that
// breaks: it sends entries without acknowledgement again, and the scheduler counts each once. Close loses entries
// without acknowledgement: Flush first.
type BUClient struct {
	clientSession

	service  tagnetv1.TagNetClient
	stream   tagnetv1.TagNet_FeedbackClient
	slots    int
	began    time.Time
	handlers BUHandlers
	absences []core.Absence // all that the unit was told in the run; owned by the main goroutine

	draining chan struct{} // closed by the receiver

	scratch []queuedFeedback // owned by the sender

	queue struct {
		mu           sync.Mutex // guards the rest
		out          outbox[queuedFeedback]
		ackAdvanced  chan struct{}      // closed by the next acknowledgement; nil while no Flush waits
		flushes      int                // calls of Flush that wait
		ackRequested uint64             // entries whose acknowledgement the client has requested on the present stream
		goesBy       *tagnetv1.Position // the unit knows the absences up to there; nil: the scheduler knows that it does
	}
}

// BUHandlers are what a BUClient calls, on the goroutine that receives; when a call returns, the client acknowledges
// the news.
type BUHandlers struct {
	// OnAbsences gets the readout units that have gone or rejoined, each change once in a session. Nil: ignored.
	OnAbsences func([]core.Absence)
	// OnValid gets the tokens that are valid under the successor of a lost scheduler, behind the absences: the unit frees
	// its other slots that wait for parts. Its error ends the session. Nil: ignored.
	OnValid func([]core.PlacedToken) error
	// Outcomes keeps the unit's outcomes from one session of a run to the next. Nil: it has only one.
	Outcomes *OutcomeLog
}

type queuedFeedback struct {
	core.Feedback
	queuedAt time.Duration // since BUClient.began
}

// DialBU connects to the scheduler and attaches as a builder unit with a number of slots, all free. Otherwise it is
// like DialRU.
func DialBU(ctx context.Context, target string, scope Scope, slots int, handlers BUHandlers,
	opts ...grpc.DialOption) (*BUClient, error) {
	return dial(target, opts, func(conn *schedulerConn) (*BUClient, error) {
		c, err := newBUClient(ctx, conn, scope, slots, handlers)
		if err == nil {
			c.ownedConn = conn
		}
		return c, err
	})
}

// newBUClient is DialBU over a connection that the caller keeps and closes.
func newBUClient(ctx context.Context, conn grpc.ClientConnInterface, scope Scope, slots int,
	handlers BUHandlers) (*BUClient, error) {
	if handlers.Outcomes == nil {
		handlers.Outcomes = NewOutcomeLog(slots, slots)
	}
	c := &BUClient{
		service:  tagnetv1.NewTagNetClient(conn),
		slots:    slots,
		began:    time.Now(),
		handlers: handlers,
		draining: make(chan struct{}),
	}
	if err := c.attach(ctx, scope, c); err != nil {
		return nil, err
	}
	return c, nil
}

// Draining is closed when the scheduler has said that it issues no new MEPs: the run ends.
func (c *BUClient) Draining() <-chan struct{} { return c.draining }

// SendFeedback reports outcomes and so frees slots. It does not block: entries wait in order until the stream accepts
// them, and then go together. It fails if more entries wait than there are slots, since a slot can wait only once. Its
// other errors are the cause of the session's end, as in RUClient.Next. The client keeps an entry until the scheduler
// has acknowledged it.
func (c *BUClient) SendFeedback(entries ...core.Feedback) error {
	err := c.QueueFeedback(entries...)
	if err == nil {
		notify(c.wake)
	}
	return err
}

// QueueFeedback is SendFeedback for entries that may wait for the next SendFeedback, to go with its entries.
func (c *BUClient) QueueFeedback(entries ...core.Feedback) error {
	since := time.Since(c.began)
	q := &c.queue
	q.mu.Lock()
	if err := c.Err(); err != nil { // under the lock: finish forgets what is not acknowledged
		q.mu.Unlock()
		return err
	}
	if n := q.out.unsent() + len(entries); n > c.slots {
		q.mu.Unlock()
		return fmt.Errorf("tagnet: %s has %d outcomes to tell and only %d slots", c.unit, n, c.slots)
	}
	for i := range entries {
		e := q.out.add()
		e.Feedback, e.queuedAt = entries[i], since
	}
	c.handlers.Outcomes.add(entries)
	q.mu.Unlock()
	return nil
}

// Flush waits until the scheduler has accepted or refused every entry so far, including queued ones.
func (c *BUClient) Flush(ctx context.Context) error {
	q := &c.queue
	q.mu.Lock()
	upTo := q.out.total()
	q.flushes++
	defer func() { // mu is not held
		q.mu.Lock()
		q.flushes--
		q.mu.Unlock()
	}()
	notify(c.wake)
	for q.out.acked < upTo {
		if q.ackAdvanced == nil {
			q.ackAdvanced = make(chan struct{})
		}
		advanced := q.ackAdvanced
		q.mu.Unlock()
		select {
		case <-advanced:
		case <-c.ended:
			// The last acknowledgement may have come in just before the end.
			q.mu.Lock()
			done := q.out.acked >= upTo
			q.mu.Unlock()
			if done {
				return nil
			}
			return c.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
	return nil
}

func (c *BUClient) open(ctx context.Context, scope *tagnetv1.Scope, opts ...grpc.CallOption) (err error) {
	first := c.openingMessage(scope)
	if c.stream, err = c.service.Feedback(ctx, opts...); err != nil {
		return err
	}
	return c.stream.Send(first)
}

// openingMessage is the first message of a stream.
func (c *BUClient) openingMessage(scope *tagnetv1.Scope) *tagnetv1.FeedbackBatch {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.queue.out.rewind()
	c.queue.ackRequested, c.queue.goesBy = 0, c.position()
	m := &tagnetv1.FeedbackBatch{Scope: scope, SlotCount: uint32(c.slots), Had: c.position()}
	if c.recalls {
		r := core.Recall{Absences: c.absences, Entries: c.queue.out.claimAll()}
		r.Outcomes, r.Totals = c.handlers.Outcomes.outcomes()
		m.Recall = recallMessage(&r)
	}
	return m
}

func (c *BUClient) setService(s tagnetv1.TagNetClient) { c.service = s }

// finish drops the outcomes that the scheduler may not have taken, for the next session of the unit.
func (c *BUClient) finish() {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.handlers.Outcomes.forget(int(c.queue.out.total() - c.queue.out.acked))
}

func (c *BUClient) send() error {
	for {
		first, entries := c.takeEntries()
		had := c.takeGoesBy()
		if len(entries) == 0 && had == nil && !c.requestAck(first) {
			return nil
		}
		m := c.packEntries(entries) // without entries and position it requests an acknowledgement
		m.First, m.Had = first, had
		if err := c.stream.Send(m); err != nil {
			return err
		}
	}
}

// takeEntries returns the entries for the next message, valid until the next call.
func (c *BUClient) takeEntries() (first uint64, entries []queuedFeedback) {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	first, c.scratch = c.queue.out.claim(c.scratch, maxEntriesPerMessage)
	return first, c.scratch
}

// takeGoesBy returns the position up to which the unit knows absences, once for each change.
func (c *BUClient) takeGoesBy() (p *tagnetv1.Position) {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	p, c.queue.goesBy = c.queue.goesBy, nil
	return p
}

// requestAck tells whether to request an acknowledgement of the entries sent. Otherwise the scheduler may wait for
// more.
func (c *BUClient) requestAck(sent uint64) bool {
	q := &c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flushes == 0 || q.ackRequested >= sent || q.out.acked >= sent {
		return false
	}
	q.ackRequested = sent
	return true
}

// packEntries makes a new message each time, since gRPC may read a message after Send has returned.
func (c *BUClient) packEntries(entries []queuedFeedback) *tagnetv1.FeedbackBatch {
	n := len(entries)
	m := &tagnetv1.FeedbackBatch{
		Meps:     make([]uint64, n),
		Slots:    make([]uint32, n),
		Events:   make([]uint32, n),
		HeldUs:   make([]uint32, n),
		Outcomes: make([]byte, n),
	}
	now := time.Since(c.began)
	for i := range entries {
		e := &entries[i]
		m.Meps[i], m.Slots[i], m.Events[i] = e.MEP, core.PackSlot(e.Attempt, e.Slot), e.Events
		m.HeldUs[i] = uint32(min((now - e.queuedAt).Microseconds(), 1<<32-1))
		m.Outcomes[i] = byte(e.Outcome)
	}
	m.Events, m.HeldUs, m.Outcomes = collapseEqual(m.Events), collapseEqual(m.HeldUs), collapseEqual(m.Outcomes)
	return m
}

// collapseEqual cuts a list of equal elements to one, which then stands for all.
func collapseEqual[T comparable](list []T) []T {
	for _, v := range list {
		if v != list[0] {
			return list
		}
	}
	return list[:min(1, len(list))]
}

func (c *BUClient) recv() (*tagnetv1.Notices, error) { return c.stream.Recv() }

// applyNotices processes a message of the stream.
func (c *BUClient) applyNotices(m *tagnetv1.Notices) error {
	if m.GetState() >= tagnetv1.State_STATE_DRAINING && !isClosed(c.draining) {
		close(c.draining)
	}
	if !c.applyAck(m) {
		return &protocolError{Unit: c.unit, What: fmt.Sprintf(
			"an acknowledgement of %d entries of feedback, which does not fit those sent", m.GetTaken())}
	}
	absences, ok := decodeAbsences(m.GetAbsent())
	if !ok {
		return &protocolError{Unit: c.unit,
			What: fmt.Sprintf("%d words that are no absences of readout units", len(m.GetAbsent()))}
	}
	valid, ok := decodePlacedTokens(m.GetValid(), math.MaxUint16+1)
	switch {
	case !ok:
		return &protocolError{Unit: c.unit, What: "valid tokens that are none"}
	case len(absences) == 0 && m.GetValid() == nil:
		return nil
	}
	c.absences = append(c.absences, absences...)
	if c.handlers.OnAbsences != nil && len(absences) > 0 {
		c.handlers.OnAbsences(absences)
	}
	if c.handlers.OnValid != nil && m.GetValid() != nil {
		if err := c.handlers.OnValid(valid); err != nil {
			return err
		}
	}
	c.queue.mu.Lock()
	c.queue.goesBy = &tagnetv1.Position{Term: m.GetTerm(), Next: m.GetNext()}
	c.queue.mu.Unlock()
	notify(c.wake)
	return nil
}

// applyAck applies a cumulative acknowledgement; false if it does not fit the entries sent.
func (c *BUClient) applyAck(m *tagnetv1.Notices) bool {
	q := &c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.out.ack(m.GetTaken()) {
		return false
	}
	if q.ackAdvanced != nil {
		close(q.ackAdvanced)
		q.ackAdvanced = nil
	}
	return true
}
