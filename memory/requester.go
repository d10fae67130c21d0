package memory

// The user's side, as a pure core: which transaction may start, what its outcome is, and which caller gets it.
//
//	begin → held     in the queue of its ordering context, until its turn
//	        queued   in the queue of its peer, until one of the peer's 48 outstanding is over
//	        running  the shell has been told to start it
//	        lost     its caller got Unknown; the slot waits until the link reports the outcome, or is over
//	ended → free
//
// Queues are per peer, so a peer that does not answer delays no other (virtual output queues, NIC-crossbar §2.1).

// Sizes.
const (
	numContexts            = 16 // ordering contexts (SCI-bridge §II.B.2)
	noContext              = numContexts
	maxRunningPerPeer      = 48  // running transactions per peer (SCI-bridge §III.B)
	maxTransactionsPerPeer = 128 // transactions per peer in any state
	noSlot                 = -1
	maxMembers             = 1<<16/maxTransactionsPerPeer - 2 // a slot has 16 bits, and fences have slots of their own
)

type transactionState uint8

const (
	txFree transactionState = iota
	txHeld
	txQueued
	txRunning
	txLost
)

func (s transactionState) String() string {
	return [...]string{"free", "held", "queued", "running", "lost"}[s]
}

// request describes a transaction for the core.
type request struct {
	context   int // noContext: none
	peer      int // len(peers): it is a fence
	ordered   bool
	posted    bool // only a fence waits for its outcome
	longLived bool // it may last: it does not count as one of the peer's outstanding ones
	deadline  int64
}

type transaction struct {
	request
	id          uint64
	state       transactionState
	maybeSent   bool // of a posted one: it may have been sent
	nextInQueue int  // slot behind it in its queue
}

type fifo struct{ head, tail int }

// orderContext is one ordering context.
type orderContext struct {
	held           fifo
	runningCount   int  // started and not over, lost ones included
	orderedRunning bool // one of them is ordered
	firstFailure   failure
}

// failure is the first posted transaction of a context that was not done.
type failure struct {
	outcome Outcome
	why     Cause
}

type verb uint8

const (
	actStart  verb = iota + 1 // carry out the transaction
	actReport                 // report the outcome to its caller
)

// action is a task for the shell.
type action struct {
	verb      verb
	slot      int
	id        uint64
	outcome   Outcome
	why       Cause
	slotFreed bool // the slot is free now
}

type requester struct {
	transactions     []transaction
	free             []int
	seq              uint64
	contexts         [numContexts + 1]orderContext
	queues           []fifo // by peer; the last one is for fences
	runningByPeer    []int  // by peer
	earliestDeadline int64  // no transaction expires before; 0: none expires
	actions          []action
	stats            *Stats
}

func newRequester(members int, stats *Stats) *requester {
	n := maxTransactionsPerPeer * (members + 1)
	r := &requester{
		transactions:  make([]transaction, n),
		free:          make([]int, 0, n),
		queues:        make([]fifo, members+1),
		runningByPeer: make([]int, members+1),
		stats:         stats,
	}
	for i := n - 1; i >= 0; i-- {
		r.free = append(r.free, i)
		r.transactions[i].nextInQueue = noSlot
	}
	for i := range r.contexts {
		r.contexts[i].held = fifo{noSlot, noSlot}
	}
	for i := range r.queues {
		r.queues[i] = fifo{noSlot, noSlot}
	}
	return r
}

func (r *requester) push(q *fifo, slot int) {
	r.transactions[slot].nextInQueue = noSlot
	if q.head == noSlot {
		q.head = slot
	} else {
		r.transactions[q.tail].nextInQueue = slot
	}
	q.tail = slot
}

func (r *requester) pop(q *fifo) int {
	slot := q.head
	if q.head = r.transactions[slot].nextInQueue; q.head == noSlot {
		q.tail = noSlot
	}
	return slot
}

// unlink removes a slot from the middle of a queue.
func (r *requester) unlink(q *fifo, slot int) {
	before := noSlot
	for at := q.head; at != noSlot; before, at = at, r.transactions[at].nextInQueue {
		if at != slot {
			continue
		}
		next := r.transactions[at].nextInQueue
		if before == noSlot {
			q.head = next
		} else {
			r.transactions[before].nextInQueue = next
		}
		if next == noSlot {
			q.tail = before
		}
		return
	}
}

// contextIdle reports whether an ordered transaction of the context could start at once.
func (r *requester) contextIdle(context int) bool {
	c := &r.contexts[context]
	return c.held.head == noSlot && c.runningCount == 0 && c.firstFailure.outcome == Done
}

// begin accepts a transaction. The shell holds one of the peer's maxTransactionsPerPeer tokens for it, so there is a
// free slot.
func (r *requester) begin(q request) (slot int) {
	slot = r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	t := &r.transactions[slot]
	*t = transaction{request: q, state: txHeld, nextInQueue: noSlot}
	if q.deadline != 0 && (r.earliestDeadline == 0 || q.deadline < r.earliestDeadline) {
		r.earliestDeadline = q.deadline
	}
	r.push(&r.contexts[q.context].held, slot)
	r.admit(q.context)
	return slot
}

// admit starts or queues the held transactions that the context's order permits.
func (r *requester) admit(context int) {
	c := &r.contexts[context]
	for c.held.head != noSlot {
		t := &r.transactions[c.held.head]
		if c.orderedRunning || t.ordered && c.runningCount > 0 {
			return
		}
		slot := r.pop(&c.held)
		c.runningCount++
		c.orderedRunning = t.ordered
		switch {
		case t.peer == len(r.queues)-1:
			f := c.firstFailure
			c.firstFailure = failure{}
			t.state = txRunning
			r.leaveContext(slot, f.outcome, f.why)
			return // leaveContext has admitted the later ones
		case c.firstFailure.outcome != Done && (t.ordered || t.posted):
			t.state = txRunning
			r.leaveContext(slot, Refused, ErrEarlier)
			return
		case t.longLived:
			r.start(slot)
		default:
			t.state = txQueued
			r.push(&r.queues[t.peer], slot)
			r.startQueued(t.peer)
		}
	}
}

// startQueued starts a peer's queued transactions as far as it may have more outstanding.
func (r *requester) startQueued(peer int) {
	for q := &r.queues[peer]; q.head != noSlot && r.runningByPeer[peer] < maxRunningPerPeer; {
		slot := r.pop(q)
		r.runningByPeer[peer]++
		r.stats.MostOutstanding = max(r.stats.MostOutstanding, uint64(r.runningByPeer[peer]))
		r.start(slot)
	}
}

func (r *requester) start(slot int) {
	t := &r.transactions[slot]
	t.state = txRunning
	r.actions = append(r.actions, action{verb: actStart, slot: slot, id: r.assignID(slot)})
}

// assignID gives a running transaction a new id as its request is sent: transactions may be sent in another order than
// they started, and owners accept only rising ids.
func (r *requester) assignID(slot int) (id uint64) {
	r.seq++
	id = r.seq<<16 | uint64(slot)
	r.transactions[slot].id = id
	return id
}

// slotOf returns the slot of the transaction with a peer and an id.
func (r *requester) slotOf(peer int, id uint64) (slot int, ok bool) {
	slot = int(id & 0xFFFF)
	if slot >= len(r.transactions) || r.transactions[slot].id != id || r.transactions[slot].peer != peer ||
		r.transactions[slot].state != txRunning && r.transactions[slot].state != txLost {
		return 0, false
	}
	return slot, true
}

// finish ends a running or lost transaction with its outcome.
func (r *requester) finish(slot int, o Outcome, why Cause) {
	t := &r.transactions[slot]
	peer, lost, idle := t.peer, t.state == txLost, t.longLived
	if lost {
		r.stats.LateOutcomes++
	}
	r.leaveContext(slot, o, why)
	if !idle {
		r.runningByPeer[peer]--
		r.startQueued(peer)
	}
}

// leaveContext removes a started transaction from its context.
func (r *requester) leaveContext(slot int, o Outcome, why Cause) {
	t := &r.transactions[slot]
	c := &r.contexts[t.context]
	context := t.context
	c.runningCount--
	if t.ordered {
		c.orderedRunning = false
	}
	r.report(slot, o, why, true)
	r.admit(context)
}

// report reports an outcome, once for each transaction, and frees the slot if free is true.
func (r *requester) report(slot int, o Outcome, why Cause, free bool) {
	t := &r.transactions[slot]
	alreadyReported := t.state == txLost
	if !alreadyReported {
		switch o {
		case Done:
			r.stats.TransactionsDone++
		case Refused:
			r.stats.TransactionsRefused++
		case Unknown:
			r.stats.TransactionsUnknown++
		}
		if c := &r.contexts[t.context]; t.posted && o != Done && c.firstFailure.outcome == Done {
			c.firstFailure = failure{o, why}
		}
	}
	r.actions = append(r.actions, action{
		verb:      actReport,
		slot:      slot,
		outcome:   o,
		why:       why,
		slotFreed: free,
	})
	if alreadyReported {
		r.actions[len(r.actions)-1].outcome = Done // the caller has its outcome already; this only frees the slot
		r.actions[len(r.actions)-1].why = causeNone
	}
	if free {
		*t = transaction{nextInQueue: noSlot, id: t.id}
		r.free = append(r.free, slot)
	}
}

// abandon ends a transaction for its caller: as refused if it was not started, otherwise as unknown.
func (r *requester) abandon(slot int, why Cause) {
	t := &r.transactions[slot]
	switch t.state {
	case txHeld:
		r.unlink(&r.contexts[t.context].held, slot)
		context := t.context
		r.report(slot, Refused, why, true)
		r.admit(context)
	case txQueued:
		r.unlink(&r.queues[t.peer], slot)
		r.leaveContext(slot, Refused, why)
	case txRunning:
		if t.unsent() {
			r.finish(slot, Refused, why)
			return
		}
		r.report(slot, Unknown, why, false)
		t.state = txLost
	}
}

// unsent reports whether a running posted transaction has certainly not been sent. For others the goroutine that
// carries them out decides.
func (t *transaction) unsent() bool { return t.posted && !t.maybeSent }

// expire ends transactions whose deadline has passed.
func (r *requester) expire(now int64) {
	if r.earliestDeadline == 0 || now < r.earliestDeadline {
		return
	}
	r.earliestDeadline = 0
	for slot := range r.transactions {
		t := &r.transactions[slot]
		if t.deadline == 0 || t.state == txFree || t.state == txLost {
			continue
		}
		if t.deadline <= now {
			r.abandon(slot, ErrTimeout)
		} else if r.earliestDeadline == 0 || t.deadline < r.earliestDeadline {
			r.earliestDeadline = t.deadline
		}
	}
}

// peerDown ends all transactions with a peer: those that were sent as unknown, the others as refused.
func (r *requester) peerDown(peer int, why Cause) {
	for slot := range r.transactions {
		t := &r.transactions[slot]
		if t.peer != peer || t.state != txHeld && t.state != txQueued {
			continue
		}
		r.abandon(slot, why)
	}
	for slot := range r.transactions {
		if t := &r.transactions[slot]; t.peer == peer && (t.state == txRunning || t.state == txLost) {
			o := Unknown
			if t.unsent() {
				o = Refused
			}
			r.finish(slot, o, why)
		}
	}
}
