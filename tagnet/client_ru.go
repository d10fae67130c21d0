package tagnet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"google.golang.org/grpc"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// Tokens is what a readout unit receives at a time: whole cycles in order, the released watermark and the scheduler's
// state.
type Tokens struct {
	core.Batch
	Released uint64   // every MEP below has its final outcome, but those in HeldUp: its MFPs may be freed
	HeldUp   []uint64 // in order, to be read only: batches share it
	State    core.State

	Tags        []core.Tag        // that set out on the ring; the first readout unit's alone
	Withdrawals []core.Withdrawal // builder units that were excluded; they concern cycles of this batch, too

	Cuts     []core.Cut     // which events further MEPs have, where the data are live
	CutsOver bool           // and no MEP comes behind those told so far
	Absences []core.Absence // readout units that are gone or have rejoined, likewise
}

// RUClient is a readout unit's end of the token stream. A stream that breaks is resumed: Next goes on with the cycle
// that follows, and what was said once and is not acknowledged is said again.
//
// Update may be called by any goroutine, Next by one. Tokens wait in gRPC's flow control while Next is not called: the
// client keeps a bounded number of batches.
type RUClient struct {
	clientSession

	service    tagnetv1.TagNetClient
	stream     tagnetv1.TagNet_TokensClient
	onUnitGone func(role core.Role, unit int)
	batches    chan Tokens

	// Owned by the main goroutine.

	nextCycle          uint64
	heldUp             []uint64 // MEPs that are held up
	cutEnd             uint64   // of the last cut
	firstBatchReceived bool     // the first batch is here

	rejoin core.Absence // written before the session is answered; zero unless the unit has rejoined

	latest struct {
		mu                  sync.Mutex // guards the rest
		update              core.Update
		reach               *core.Reach // replaced, never changed
		returned            outbox[core.Tag]
		confirmedExclusions []uint64 // they are few, and all are said on each stream
		confirmedSent       int      // on the present stream
	}
}

// maxQueuedBatches is how many batches wait for who calls Next. What is told of builder units that are gone must not
// wait behind them, for a unit may be busy with one that is: since nothing moves for it meanwhile, no more come than
// are in flight.
const maxQueuedBatches = 64

// DialRU connects to the scheduler and attaches as a readout unit. onUnitGone is told of every builder unit that is
// lost for good, and of every readout unit that is excluded, on the receiving goroutine and before Next tells; nil:
// nobody wants to know so early. Credentials are among
// opts. ctx bounds the attaching, not the stream. The error is a *RemoteError if the scheduler refuses, a *GoneError if
// it does not answer.
func DialRU(ctx context.Context, target string, scope Scope, onUnitGone func(role core.Role, unit int),
	opts ...grpc.DialOption) (*RUClient, error) {
	return dial(target, opts, func(conn *grpc.ClientConn) (*RUClient, error) {
		c, err := newRUClient(ctx, conn, scope, onUnitGone)
		if err == nil {
			c.ownedConn = conn
		}
		return c, err
	})
}

// newRUClient is DialRU over a connection that stays the caller's.
func newRUClient(ctx context.Context, conn grpc.ClientConnInterface, scope Scope,
	onUnitGone func(role core.Role, unit int),
) (*RUClient, error) {
	c := &RUClient{service: tagnetv1.NewTagNetClient(conn), onUnitGone: onUnitGone,
		batches: make(chan Tokens, maxQueuedBatches)}
	if err := c.attach(ctx, scope, c); err != nil {
		return nil, err
	}
	return c, nil
}

// RejoinPoint is the rejoin with which the unit takes part again: it has every MEP from that of the rejoin on, the
// first cycle that comes is that of the rejoin, and Update counts events from there on. Zero: it takes part from the
// beginning.
func (c *RUClient) RejoinPoint() core.Absence { return c.rejoin }

// Update tells what the unit holds. Updates are sent as fast as the stream takes them; one that has not been sent is
// replaced by the next. It does not block and does not allocate. The error is the cause of the session's end;
// io.EOF after Drained.
func (c *RUClient) Update(u core.Update) error {
	c.latest.mu.Lock()
	c.latest.update = u
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// ReportReach tells how far live data go; otherwise it is as Update.
func (c *RUClient) ReportReach(r core.Reach) error {
	c.latest.mu.Lock()
	c.latest.reach = &r
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// ReturnTag gives a tag that has come round the ring back to the scheduler. Tags are sent in the order they are given,
// each once. It does not block. The error is that of Update.
func (c *RUClient) ReturnTag(t *core.Tag) error {
	c.latest.mu.Lock()
	c.latest.returned.push(*t)
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// ConfirmExclusion says that nothing of an exclusion is under way here any more; it is known by its place among all
// that Tokens.Withdrawals told, from 0. Each is said once. It does not block. The error is that of Update.
func (c *RUClient) ConfirmExclusion(exclusion uint64) error {
	c.latest.mu.Lock()
	c.latest.confirmedExclusions = append(c.latest.confirmedExclusions, exclusion)
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// Next waits for the next batch. The caller owns its memory. After the batch whose State is Drained it returns io.EOF;
// before that, the errors are *GoneError (errors.Is ErrGone), *RemoteError if the unit was cut off, *protocolError,
// errClosed, or ctx's own.
func (c *RUClient) Next(ctx context.Context) (Tokens, error) {
	select {
	case t, ok := <-c.batches:
		if !ok {
			return Tokens{}, c.Err()
		}
		return t, nil
	case <-ctx.Done():
		return Tokens{}, ctx.Err()
	}
}

func (c *RUClient) open(ctx context.Context, scope *tagnetv1.Scope, opts ...grpc.CallOption) (err error) {
	first := c.openingMessage(scope)
	if c.stream, err = c.service.Tokens(ctx, opts...); err != nil {
		return err
	}
	return c.stream.Send(first)
}

// openingMessage is the first message of a stream.
func (c *RUClient) openingMessage(scope *tagnetv1.Scope) *tagnetv1.RUUpdate {
	l := &c.latest
	l.mu.Lock()
	defer l.mu.Unlock()
	l.returned.rewind()
	l.confirmedSent = 0
	return &tagnetv1.RUUpdate{
		Scope:  scope,
		Read:   l.update.ReadBelow,
		Events: l.update.Events,
		End:    l.update.InputEnded,
		Reach:  reachMessage(l.reach),
		Had:    c.position(),
	}
}

func (c *RUClient) finish() { close(c.batches) }

func (c *RUClient) send() error { return c.stream.Send(c.updateMessage()) }

func (c *RUClient) recv() (*tagnetv1.Notices, error) { return c.stream.Recv() }

// updateMessage is what there is to say now. gRPC may look at it after Send has returned, so each is its own, and so
// are its lists.
func (c *RUClient) updateMessage() *tagnetv1.RUUpdate {
	l := &c.latest
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &tagnetv1.RUUpdate{
		Read:   l.update.ReadBelow,
		Events: l.update.Events,
		End:    l.update.InputEnded,
		Reach:  reachMessage(l.reach),
	}
	var tags []core.Tag
	m.ReturnedFirst, tags = l.returned.claim(nil, math.MaxInt)
	for i := range tags {
		m.Returned = tags[i].AppendWords(m.Returned)
	}
	m.Settled = slices.Clone(l.confirmedExclusions[l.confirmedSent:])
	l.confirmedSent = len(l.confirmedExclusions)
	return m
}

// applyNotices takes a message of the stream.
func (c *RUClient) applyNotices(m *tagnetv1.Notices) error {
	t, what := c.decode(m)
	if what != "" {
		return &protocolError{Unit: c.unit, What: what}
	}
	for _, w := range t.Withdrawals {
		if w.Lost && c.onUnitGone != nil {
			c.onUnitGone(core.Builder, int(w.BU))
		}
	}
	for ru, back := range rejoinedByRU(t.Absences) {
		if !back && c.onUnitGone != nil {
			c.onUnitGone(core.Readout, int(ru))
		}
	}
	select {
	case c.batches <- t:
	case <-c.ended:
		return c.Err()
	}
	return nil
}

// rejoinedByRU is which readout units have rejoined, and which are gone, after some absences.
func rejoinedByRU(all []core.Absence) map[uint16]bool {
	rejoined := map[uint16]bool{}
	for _, a := range all {
		rejoined[a.RU] = a.Rejoined
	}
	return rejoined
}

// decode reads a message, and tells what is wrong with it.
func (c *RUClient) decode(m *tagnetv1.Notices) (t Tokens, what string) {
	t = tokensOf(m)
	if m.GetHeldUp() != nil {
		c.heldUp = m.GetHeldUp().GetMeps()
	}
	t.HeldUp = c.heldUp
	c.detectRejoin(m)
	if what = t.check(c.nextCycle); what == "" {
		what = t.decodeWords(m, c.cutEnd)
	}
	if what != "" {
		return t, what
	}
	c.latest.mu.Lock()
	fits := c.latest.returned.ack(m.GetTaken())
	c.latest.mu.Unlock()
	if !fits {
		return t, fmt.Sprintf("an acknowledgement of %d tags, which is not what it was given back", m.GetTaken())
	}
	c.nextCycle += uint64(t.Len())
	if n := len(t.Cuts); n > 0 {
		last := t.Cuts[n-1]
		c.cutEnd = last.FirstEvent + uint64(last.Events)
	}
	return t, ""
}

// detectRejoin finds in the first batch with which rejoin the session begins, if with any.
func (c *RUClient) detectRejoin(m *tagnetv1.Notices) {
	if c.firstBatchReceived {
		return
	}
	c.firstBatchReceived = true
	all, _ := decodeAbsences(m.GetAbsent()) // what is wrong with them is found with the rest
	for _, a := range all {
		if a.Rejoined && a.FirstCycle == m.GetFirstCycle() {
			c.rejoin, c.nextCycle = a, a.FirstCycle
		}
	}
}

func tokensOf(m *tagnetv1.Notices) Tokens {
	t := Tokens{
		Batch: core.Batch{
			FirstCycle:     m.GetFirstCycle(),
			PlacesPerCycle: int(m.GetPlaces()),
			MEPs:           m.GetMeps(),
			Slots:          m.GetSlots(),
		},
		Released: m.GetReleased(),
	}
	if n := len(t.Slots); t.PlacesPerCycle > 0 && len(t.MEPs) == t.PlacesPerCycle && n > t.PlacesPerCycle &&
		n%t.PlacesPerCycle == 0 {
		t.MEPs = expandConsecutive(t.MEPs, n)
	}
	if v := m.GetState(); v >= 0 && v <= tagnetv1.State_STATE_DRAINED { // else 0, which check refuses
		t.State = core.State(v)
	}
	return t
}

// isAscending tells that each MEP is larger than the one before it, and all are below a limit.
func isAscending(meps []uint64, below uint64) bool {
	for i, mep := range meps {
		if mep >= below || i > 0 && mep <= meps[i-1] {
			return false
		}
	}
	return true
}

// check tells what is wrong with a batch from the network.
func (t *Tokens) check(next uint64) string {
	switch {
	case t.PlacesPerCycle == 0 || t.PlacesPerCycle > 65535 || len(t.MEPs)%t.PlacesPerCycle != 0 ||
		len(t.MEPs) != len(t.Slots):
		return fmt.Sprintf("a batch of %d MEPs and %d slots in cycles of %d places", len(t.MEPs), len(t.Slots),
			t.PlacesPerCycle)
	case t.FirstCycle != next:
		return fmt.Sprintf("cycle %d where cycle %d was next", t.FirstCycle, next)
	case !isAscending(t.HeldUp, t.Released):
		return fmt.Sprintf("%d MEPs held up that are not in order, or not below %d", len(t.HeldUp), t.Released)
	case t.State < core.Idle || t.State > core.Drained:
		return fmt.Sprintf("the unknown state %d", t.State)
	}
	return ""
}

// decodeWords reads the packed lists of a message, whose cuts begin behind an event, and tells what is wrong with them.
func (t *Tokens) decodeWords(m *tagnetv1.Notices, end uint64) string {
	var ok bool
	if t.Tags, ok = decodeTags(m.GetTags()); !ok {
		return fmt.Sprintf("%d words that are no tags", len(m.GetTags()))
	}
	if t.Withdrawals, ok = decodeWithdrawals(m.GetWithdrawn(), t.PlacesPerCycle); !ok {
		return fmt.Sprintf("%d words that withdraw nothing from any of %d builder units", len(m.GetWithdrawn()),
			t.PlacesPerCycle)
	}
	if t.Absences, ok = decodeAbsences(m.GetAbsent()); !ok {
		return fmt.Sprintf("%d words that are no absences of readout units", len(m.GetAbsent()))
	}
	if t.Cuts, ok = decodeCuts(m.GetCuts(), end); !ok {
		return fmt.Sprintf("%d words that cut no events into MEPs behind event %d", len(m.GetCuts()), end)
	}
	t.CutsOver = m.GetCutsOver()
	return ""
}
