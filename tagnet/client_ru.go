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

// Tokens is one batch that a readout unit receives: whole cycles in order, the released watermark and the scheduler's
// state.
type Tokens struct {
	core.Batch
	Released uint64   // every MEP below has its final outcome, but those in HeldUp: the unit may free its MFPs
	HeldUp   []uint64 // in order, read-only: batches share it
	State    core.State

	Tags        []core.Tag        // that start on the ring; only for the first readout unit
	Withdrawals []core.Withdrawal // excluded builder units; their tokens in this batch are void, too

	Cuts     []core.Cut     // events of further MEPs, in a live run
	CutsOver bool           // no further cut will be made
	Absences []core.Absence // readout units that have gone or rejoined; they concern cycles of this batch, too

	EndKnown bool   // in a run in which readout units assign MEPs: it ends before EndMEP
	EndMEP   uint64 // with EndKnown: tokens of MEPs from it on are void
}

// RUClient is a readout unit's end of the token stream. It resumes a stream that breaks: Next continues with the next
// cycle, and the client sends again what must arrive once and is not acknowledged.
//
// Any goroutine may call Update, one goroutine calls Next. While no goroutine calls Next, tokens wait in gRPC's flow
// control: the client keeps a bounded number of batches.
type RUClient struct {
	clientSession

	service tagnetv1.TagNetClient
	stream  tagnetv1.TagNet_TokensClient
	onUnit  func(role core.Role, unit int, back bool)
	batches chan Tokens

	// Owned by the main goroutine.

	nextCycle          uint64
	heldUp             []uint64 // MEPs that are held up, as of the last batch
	firstBatchReceived bool     // the first batch has come
	known              core.Recall
	tokens             core.TokenLog
	cuts               core.CutLog

	rejoin core.Absence // written before the session is answered; zero unless the unit has rejoined

	latest struct {
		mu                  sync.Mutex // guards the rest
		update              core.Update
		reach               *core.Reach // replaced, never changed
		stop                *uint64     // set once
		cleared             uint64      // absences
		returned            outbox[core.Tag]
		confirmedExclusions []uint64 // few, so all are sent on each stream
		confirmedSent       int      // how many were sent on the present stream
	}
}

// maxQueuedBatches is how many batches may wait for Next. News of lost builder units must not wait behind them: the
// unit may be busy sending to such a builder unit. Meanwhile its watermark stands still, so no more batches come than
// are in flight.
const maxQueuedBatches = 64

// DialRU connects to the scheduler and attaches as a readout unit. The receiving goroutine calls onUnit for every
// builder unit that is lost and every readout unit that is excluded, and with back for one that is back, before Next
// returns the news; nil: the caller does not need them early. opts have the credentials. ctx bounds the attaching, not
// the stream. The error is a *RemoteError if the scheduler refuses, a *GoneError if it does not answer.
func DialRU(ctx context.Context, target string, scope Scope, onUnit func(role core.Role, unit int, back bool),
	opts ...grpc.DialOption) (*RUClient, error) {
	return dial(target, opts, func(conn *schedulerConn) (*RUClient, error) {
		c, err := newRUClient(ctx, conn, scope, onUnit)
		if err == nil {
			c.ownedConn = conn
		}
		return c, err
	})
}

// newRUClient is DialRU over a connection that the caller keeps and closes.
func newRUClient(ctx context.Context, conn grpc.ClientConnInterface, scope Scope,
	onUnit func(role core.Role, unit int, back bool),
) (*RUClient, error) {
	c := &RUClient{service: tagnetv1.NewTagNetClient(conn), onUnit: onUnit,
		batches: make(chan Tokens, maxQueuedBatches)}
	if err := c.attach(ctx, scope, c); err != nil {
		return nil, err
	}
	return c, nil
}

// RejoinPoint is the rejoin with which the session of a readmitted unit begins: the unit has every MEP from FirstMEP
// on, its first cycle is FirstCycle, and Update counts events from FirstMEP on. Zero: the unit takes part from the
// beginning.
func (c *RUClient) RejoinPoint() core.Absence { return c.rejoin }

// Update reports what the unit holds. The client sends updates as fast as the stream accepts them; a newer update
// replaces one that was not sent. Update does not block and does not allocate. The error is the cause of the session's
// end; io.EOF after Drained.
func (c *RUClient) Update(u core.Update) error {
	c.latest.mu.Lock()
	c.latest.update = u
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// ReportReach reports how far live data reach; otherwise it is like Update.
func (c *RUClient) ReportReach(r core.Reach) error {
	c.latest.mu.Lock()
	c.latest.reach = &r
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// ReportStop reports that the unit has assigned no MEP from mep on, and waits for the end of the run; otherwise it is
// like Update. Call it once.
func (c *RUClient) ReportStop(mep uint64) error {
	c.latest.mu.Lock()
	c.latest.stop = &mep
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// ReportCleared reports that the unit has dropped all tags, and has no write under way, since the first count absences
// of readout units; otherwise it is like Update.
func (c *RUClient) ReportCleared(count uint64) error {
	c.latest.mu.Lock()
	c.latest.cleared = count
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// ReturnTag returns a tag that has come round the ring to the scheduler. The client sends tags in the order of the
// calls; each counts once. ReturnTag does not block. The error is that of Update.
func (c *RUClient) ReturnTag(t *core.Tag) error {
	c.latest.mu.Lock()
	c.latest.returned.push(*t)
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// ConfirmExclusion reports that this unit has nothing under way any more to the builder unit of an exclusion, named by
// its place among all Tokens.Withdrawals, from 0. Call it once for each. It does not block. The error is that of
// Update.
func (c *RUClient) ConfirmExclusion(exclusion uint64) error {
	c.latest.mu.Lock()
	c.latest.confirmedExclusions = append(c.latest.confirmedExclusions, exclusion)
	c.latest.mu.Unlock()
	notify(c.wake)
	return c.Err()
}

// Next waits for the next batch. The caller may keep it, and must not change it. After the batch with the state Drained
// it returns io.EOF; before, its errors are *GoneError (errors.Is ErrGone), *RemoteError if the scheduler cut the unit
// off, *protocolError, errClosed, or ctx's own.
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
	m := &tagnetv1.RUUpdate{
		Scope:   scope,
		Read:    l.update.ReadBelow,
		Events:  l.update.Events,
		End:     l.update.InputEnded,
		Reach:   reachMessage(l.reach),
		Stop:    l.stop,
		Cleared: l.cleared,
		Had:     c.position(),
	}
	if c.recalls {
		c.known.NextCycle = c.nextCycle
		c.known.Tokens, c.known.TokenCount = c.tokens.Tokens()
		c.cuts.Recall(&c.known)
		m.Recall = recallMessage(&c.known)
	}
	return m
}

func (c *RUClient) setService(s tagnetv1.TagNetClient) { c.service = s }

func (c *RUClient) finish() { close(c.batches) }

func (c *RUClient) send() error { return c.stream.Send(c.updateMessage()) }

func (c *RUClient) recv() (*tagnetv1.Notices, error) { return c.stream.Recv() }

// updateMessage is the next message. gRPC may read a message after Send has returned, so each message and its lists are
// new.
func (c *RUClient) updateMessage() *tagnetv1.RUUpdate {
	l := &c.latest
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &tagnetv1.RUUpdate{
		Read:    l.update.ReadBelow,
		Events:  l.update.Events,
		End:     l.update.InputEnded,
		Reach:   reachMessage(l.reach),
		Stop:    l.stop,
		Cleared: l.cleared,
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

// applyNotices processes a message of the stream.
func (c *RUClient) applyNotices(m *tagnetv1.Notices) error {
	t, what := c.decode(m)
	if what != "" {
		return &protocolError{Unit: c.unit, What: what}
	}
	if c.onUnit != nil {
		for bu, back := range returnedByBU(t.Withdrawals) {
			c.onUnit(core.Builder, int(bu), back)
		}
		for ru, back := range rejoinedByRU(t.Absences) {
			c.onUnit(core.Readout, int(ru), back)
		}
	}
	select {
	case c.batches <- t:
	case <-c.ended:
		return c.Err()
	}
	return nil
}

// returnedByBU tells of each builder unit in a list of withdrawals that was lost whether it has returned (true) or is
// lost (false) in the end: a new session learns all that has happened.
func returnedByBU(all []core.Withdrawal) map[uint16]bool {
	returned := map[uint16]bool{}
	for _, w := range all {
		if w.Lost || w.Returned {
			returned[w.BU] = w.Returned
		}
	}
	return returned
}

// rejoinedByRU tells of each readout unit in a list of absences whether it has rejoined (true) or is gone (false) in
// the end.
func rejoinedByRU(all []core.Absence) map[uint16]bool {
	rejoined := map[uint16]bool{}
	for _, a := range all {
		rejoined[a.RU] = a.Rejoined
	}
	return rejoined
}

// decode decodes a message; what says what is wrong with it.
func (c *RUClient) decode(m *tagnetv1.Notices) (t Tokens, what string) {
	t = tokensOf(m)
	if m.GetHeldUp() != nil || c.recalls { // a successor says which there are at first
		c.heldUp = m.GetHeldUp().GetMeps()
	}
	t.HeldUp = c.heldUp
	c.detectRejoin(m)
	var end uint64
	if what = t.check(c.nextCycle); what == "" {
		end, what = c.beginCuts(m)
	}
	if what == "" {
		what = t.decodeWords(m, end)
	}
	if what != "" {
		return t, what
	}
	c.latest.mu.Lock()
	fits := c.latest.returned.ack(m.GetTaken())
	c.latest.mu.Unlock()
	if !fits {
		return t, fmt.Sprintf("an acknowledgement of %d tags, which does not fit those returned", m.GetTaken())
	}
	if what = c.keep(m, &t); what != "" {
		return t, what
	}
	c.nextCycle += uint64(t.Len())
	return t, ""
}

// beginCuts has the cuts begin with the first message that says where they are. It returns the number after the last
// event that was cut, and what is wrong with the place that the message says.
func (c *RUClient) beginCuts(m *tagnetv1.Notices) (end uint64, what string) {
	at, next := decodeCutPosition(m.GetCutsAt()), c.cuts.Next()
	switch {
	case at == nil && next == nil:
		return 0, ""
	case next == nil:
		earlier, _ := decodePlacedTokens(m.GetEarlier(), int(m.GetPlaces())) // keep reports an error in them
		c.cuts.Begin(*at, earlier)
		return at.End, ""
	case at != nil && (at.MEP != next.MEP || at.EventsBefore != next.EventsBefore):
		return 0, fmt.Sprintf("cuts from MEP %d and %d events on where MEP %d and %d events were next", at.MEP,
			at.EventsBefore, next.MEP, next.EventsBefore)
	}
	return next.End, ""
}

// keep keeps what the successor of a lost scheduler would need to know; what says what is wrong with the message.
func (c *RUClient) keep(m *tagnetv1.Notices, t *Tokens) (what string) {
	earlier, ok := decodePlacedTokens(m.GetEarlier(), t.PlacesPerCycle)
	if !ok {
		return "earlier tokens that are none"
	}
	k := &c.known
	k.Absences, k.Withdrawals = append(k.Absences, t.Absences...), append(k.Withdrawals, t.Withdrawals...)
	k.Released, k.HeldUp, k.Unbuilt = t.Released, t.HeldUp, decodeUnbuilt(m.GetUnbuilt())
	k.Triggers = decodeTriggerTotals(m.GetTriggers())
	c.tokens.AddEarlier(earlier)
	c.tokens.Add(t.Batch, t.Released, t.HeldUp)
	c.cuts.Add(t.Cuts, t.Released, t.HeldUp)
	k.CutsOver = k.CutsOver || t.CutsOver
	return ""
}

// detectRejoin finds the rejoin, if any, with which the session begins, in the first batch.
func (c *RUClient) detectRejoin(m *tagnetv1.Notices) {
	if c.firstBatchReceived {
		return
	}
	c.firstBatchReceived = true
	all, _ := decodeAbsences(m.GetAbsent()) // decodeWords reports an error in them
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
		EndKnown: m.End != nil,
		EndMEP:   m.GetEnd(),
	}
	if n := len(t.Slots); t.PlacesPerCycle > 0 && len(t.MEPs) == t.PlacesPerCycle && n > t.PlacesPerCycle &&
		n%t.PlacesPerCycle == 0 {
		t.MEPs = expandConsecutive(t.MEPs, n)
	}
	if v := m.GetState(); v >= 0 && v <= tagnetv1.State_STATE_DRAINED { // otherwise 0, which check refuses
		t.State = core.State(v)
	}
	return t
}

// isAscending tells that each MEP is larger than the one before, and all are below a limit.
func isAscending(meps []uint64, below uint64) bool {
	for i, mep := range meps {
		if mep >= below || i > 0 && mep <= meps[i-1] {
			return false
		}
	}
	return true
}

// check returns what is wrong with a batch from the network; empty if nothing.
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

// decodeWords decodes the packed lists of a message and returns what is wrong with them. end is the end of the last
// cut.
func (t *Tokens) decodeWords(m *tagnetv1.Notices, end uint64) string {
	var ok bool
	if t.Tags, ok = decodeTags(m.GetTags()); !ok {
		return fmt.Sprintf("%d words that are no tags", len(m.GetTags()))
	}
	if t.Withdrawals, ok = decodeWithdrawals(m.GetWithdrawn(), t.PlacesPerCycle); !ok {
		return fmt.Sprintf("%d words that are no withdrawals from %d builder units", len(m.GetWithdrawn()),
			t.PlacesPerCycle)
	}
	if t.Absences, ok = decodeAbsences(m.GetAbsent()); !ok {
		return fmt.Sprintf("%d words that are no absences of readout units", len(m.GetAbsent()))
	}
	if t.Cuts, ok = decodeCuts(m.GetCuts(), end); !ok {
		return fmt.Sprintf("%d words that are no cuts from event %d on", len(m.GetCuts()), end)
	}
	t.CutsOver = m.GetCutsOver()
	return ""
}
