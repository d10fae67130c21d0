package tagnet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// maxEntriesPerMessage keeps a message of 21-byte entries below 32 KiB, as maxTokensPerMessage does.
const maxEntriesPerMessage = 1536

// BUClient is a builder unit's end of the feedback stream. Its methods may be called by any goroutine. A stream that
// breaks is resumed: what the scheduler has not acknowledged is told again, and counts once. Close loses entries that
// are not acknowledged: Flush first.
type BUClient struct {
	conversation

	service tagnetv1.TagNetClient
	stream  tagnetv1.TagNet_FeedbackClient
	slots   int
	began   time.Time
	absent  func([]Absence)

	draining chan struct{} // closed by the receiver when it has heard so

	scratch []heldFeedback // of the sender
	drained bool           // the receiver has heard so
	seen    int            // absences on the present stream, by the receiver
	heard   int            // absences that absent was told

	queue struct {
		mu      sync.Mutex // guards the rest
		out     outbox[heldFeedback]
		moved   chan struct{} // closed when more is acknowledged; nil if nobody waits
		flushes int           // calls of Flush that wait
		asked   uint64        // entries whose acknowledgement was asked for on the present stream
		knows   uint64        // absences that the unit goes by
		told    uint64        // those of them that the scheduler was told of on the present stream
	}
}

type heldFeedback struct {
	Feedback
	since time.Duration // from BUClient.began
}

// DialBU connects to the scheduler and attaches as a builder unit with a number of slots, all free. absent is told,
// on the receiving goroutine, which readout units have gone or come back, each change once in a conversation; when it
// has returned the builder unit goes by that. Nil: it does not matter to the builder unit. Otherwise it is like DialRU.
func DialBU(ctx context.Context, target string, scope Scope, slots int, absent func([]Absence),
	opts ...grpc.DialOption) (*BUClient, error) {
	return dial(target, opts, func(conn *grpc.ClientConn) (*BUClient, error) {
		c, err := newBUClient(ctx, conn, scope, slots, absent)
		if err == nil {
			c.owned = conn
		}
		return c, err
	})
}

// newBUClient is DialBU over a connection that stays the caller's.
func newBUClient(ctx context.Context, conn grpc.ClientConnInterface, scope Scope, slots int,
	absent func([]Absence)) (*BUClient, error) {
	c := &BUClient{
		service:  tagnetv1.NewTagNetClient(conn),
		slots:    slots,
		began:    time.Now(),
		absent:   absent,
		draining: make(chan struct{}),
	}
	if err := c.attach(ctx, scope, c); err != nil {
		return nil, err
	}
	return c, nil
}

// Draining is closed when the scheduler has said that it issues no MEP that was not issued before: the run ends.
func (c *BUClient) Draining() <-chan struct{} { return c.draining }

// Feedback returns slots. Entries wait in order until the stream takes them, and go together then; it does not block.
// A slot can wait only once, so it fails if more entries wait than there are slots. Other errors are the cause of the
// conversation's end, as in RUClient.Next. An entry is kept until the scheduler has acknowledged it.
func (c *BUClient) Feedback(entries ...Feedback) error {
	err := c.Hold(entries...)
	if err == nil {
		poke(c.wake)
	}
	return err
}

// Hold is Feedback that lets the entries wait for the next ones given to Feedback, to go with them.
func (c *BUClient) Hold(entries ...Feedback) error {
	if err := c.Err(); err != nil {
		return err
	}
	since := time.Since(c.began)
	q := &c.queue
	q.mu.Lock()
	if n := q.out.waiting() + len(entries); n > c.slots {
		q.mu.Unlock()
		return fmt.Errorf("tagnet: %s has %d outcomes to tell and only %d slots", c.unit, n, c.slots)
	}
	for i := range entries {
		e := q.out.next()
		e.Feedback, e.since = entries[i], since
	}
	q.mu.Unlock()
	return nil
}

// Flush waits until the scheduler has taken or refused every entry given so far, held ones included.
func (c *BUClient) Flush(ctx context.Context) error {
	q := &c.queue
	q.mu.Lock()
	upTo := q.out.given()
	q.flushes++
	defer func() { // mu is not held
		q.mu.Lock()
		q.flushes--
		q.mu.Unlock()
	}()
	poke(c.wake)
	for q.out.acked < upTo {
		if q.moved == nil {
			q.moved = make(chan struct{})
		}
		moved := q.moved
		q.mu.Unlock()
		select {
		case <-moved:
		case <-c.ended:
			// The last acknowledgement may have come in just before the end.
			q.mu.Lock()
			told := q.out.acked >= upTo
			q.mu.Unlock()
			if told {
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
	first := c.opening(scope)
	if c.stream, err = c.service.Feedback(ctx, opts...); err != nil {
		return err
	}
	return c.stream.Send(first)
}

// opening is the first message of a stream.
func (c *BUClient) opening(scope *tagnetv1.Scope) *tagnetv1.FeedbackBatch {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.queue.out.rewind()
	c.queue.asked, c.queue.told = 0, 0
	return &tagnetv1.FeedbackBatch{Scope: scope, SlotCount: uint32(c.slots)}
}

func (c *BUClient) over() {}

func (c *BUClient) send() error {
	for {
		first, entries := c.take()
		knows, news := c.knows()
		if len(entries) == 0 && !news && !c.ask(first) {
			return nil
		}
		m := c.message(entries) // without entries or news it asks for an acknowledgement
		m.First = first
		if news {
			m.Absent = knows
		}
		if err := c.stream.Send(m); err != nil {
			return err
		}
	}
}

// take is what goes into the next message. It is valid until the next call.
func (c *BUClient) take() (first uint64, entries []heldFeedback) {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	first, c.scratch = c.queue.out.take(c.scratch, maxEntriesPerMessage)
	return first, c.scratch
}

// knows is how many absences the unit goes by, and whether the scheduler is to be told.
func (c *BUClient) knows() (n uint64, news bool) {
	q := &c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	news = q.knows > q.told
	q.told = q.knows
	return q.knows, news
}

// ask tells whether to ask for an acknowledgement of the entries sent, which may else wait for more of them.
func (c *BUClient) ask(sent uint64) bool {
	q := &c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flushes == 0 || q.asked >= sent || q.out.acked >= sent {
		return false
	}
	q.asked = sent
	return true
}

// message packs entries. gRPC may look at a message after Send has returned, so each is its own.
func (c *BUClient) message(entries []heldFeedback) *tagnetv1.FeedbackBatch {
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
		m.Meps[i], m.Slots[i], m.Events[i] = e.MEP, packSlot(e.Attempt, e.Slot), e.Events
		m.HeldUs[i] = uint32(min((now - e.since).Microseconds(), 1<<32-1))
		m.Outcomes[i] = byte(e.Outcome)
	}
	m.Events, m.HeldUs, m.Outcomes = once(m.Events), once(m.HeldUs), once(m.Outcomes)
	return m
}

// once cuts a list whose elements are all the same to one, which then stands for all.
func once[T comparable](list []T) []T {
	for _, v := range list {
		if v != list[0] {
			return list
		}
	}
	return list[:min(1, len(list))]
}

// at is element i of a list, or the one that stands for all.
func at[T any](list []T, i int) T {
	if len(list) == 1 {
		return list[0]
	}
	return list[i]
}

// fits tells that the lists of a message have as many elements as there are entries, or one where one may stand for
// all.
func fits(m *tagnetv1.FeedbackBatch) bool {
	n := len(m.Meps)
	one := func(k int) bool { return k == n || k == 1 && n > 0 }
	return len(m.Slots) == n && one(len(m.Events)) && one(len(m.HeldUs)) && one(len(m.Outcomes))
}

// goBy takes absences, of which those that an earlier stream has told are known; false if they cannot be.
func (c *BUClient) goBy(m *tagnetv1.FeedbackAck) bool {
	all, ok := absencesOf(m.GetAbsent())
	if !ok || len(all) == 0 {
		return ok
	}
	before := c.seen
	c.seen += len(all)
	if c.seen <= c.heard {
		return true
	}
	all = all[max(0, c.heard-before):]
	c.heard = c.seen
	if c.absent != nil {
		c.absent(all)
	}
	c.queue.mu.Lock()
	c.queue.knows = uint64(c.heard)
	c.queue.mu.Unlock()
	poke(c.wake)
	return true
}

func (c *BUClient) receive(heard func()) error {
	c.seen = 0
	for {
		m, err := c.stream.Recv()
		if err != nil {
			return c.ending(err, c.drained)
		}
		state := State(m.GetState())
		if c.drained = state == Drained; (c.drained || state == Draining) && !isClosed(c.draining) {
			close(c.draining)
		}
		if !c.acknowledged(m) {
			return &protocolError{Unit: c.unit,
				What: fmt.Sprintf("an acknowledgement of %d entries of feedback, which is not what it was told",
					m.GetDone())}
		}
		if !c.goBy(m) {
			return &protocolError{Unit: c.unit,
				What: fmt.Sprintf("%d words that are no absences of readout units", len(m.GetAbsent()))}
		}
		if heard != nil {
			heard()
			heard = nil
		}
	}
}

// acknowledged takes a cumulative acknowledgement; false if it cannot be.
func (c *BUClient) acknowledged(m *tagnetv1.FeedbackAck) bool {
	q := &c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.out.ack(m.GetDone()) {
		return false
	}
	if q.moved != nil {
		close(q.moved)
		q.moved = nil
	}
	return true
}
