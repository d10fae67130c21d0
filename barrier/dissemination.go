package barrier

// A dissemination barrier has no tree and no release. The signal of round k from
// rank p says that p and the 2^k−1 ranks behind it have entered. A rank sends it
// once it has entered and has the signals of all rounds below k; with that of the
// last round everybody has entered, and it leaves.
//
// Two epochs of bits are all the state. Claim: a signal that comes is for the epoch
// its receiver stands at, or for the next one if the receiver is inside, or is a
// copy of one that was counted.
//   - A rank signals in epoch e+1 only after it left e, so after everybody entered
//     e, the receiver too. So the receiver is inside e, or past it: at e+1.
//   - It signals in e+2 only after everybody entered e+1, so after the receiver
//     left e: it can never be two epochs ahead.
//   - The receiver leaves e only with one signal of e from each of its senders, and
//     each sends one per epoch: what comes later for e is a copy.
//
// As in the tree this holds for any order of delivery.

// heard is what came of an epoch, one place for each round.
type heard struct {
	rounds uint32 // bit k: the signal of round k has come
	parts  [maxRounds]part
}

// signal takes the signal of a round.
func (c *Core) signal(m Message, now int64, a *Actions) error {
	round, ok := c.ring.round(int(m.From), c.rank)
	if !ok {
		return c.refuse(m, ErrWrongKind, "the sender never signals this rank, it is signalled by it")
	}
	if m.Epoch < c.epoch {
		c.counters.Late++
		return nil
	}
	if m.Epoch > c.epoch && (m.Epoch != c.epoch+1 || !c.inside) {
		return c.refuse(m, ErrAhead, "its sender cannot have left the epoch before")
	}
	h := &c.heard[m.Epoch&1]
	if h.rounds&(1<<round) != 0 {
		c.counters.Duplicate++
		return nil
	}
	h.rounds |= 1 << round
	h.parts[round] = m.Lag.heard(now)
	if m.Epoch > c.epoch || !c.inside {
		c.counters.Early++
		return nil
	}
	c.progress(a)
	return nil
}

// progress goes on from round to round for as long as their signals are there.
// Parts are merged in this order, not as they come: what is told in a round then
// speaks for exactly the ranks that its receiver counts on.
func (c *Core) progress(a *Actions) {
	h := &c.heard[c.epoch&1]
	for h.rounds&(1<<c.round) != 0 {
		c.entered.merge(h.parts[c.round])
		c.round++
		if c.round == c.rounds {
			c.held = c.entered.lag().held()
			c.leave(a)
			return
		}
		c.tell(a)
	}
}

// tell sends the signal of the round this rank stands in.
func (c *Core) tell(a *Actions) {
	m := c.message(Arrive, c.ring.ahead(c.rank, c.round), c.epoch)
	m.Lag = c.entered.lag()
	a.Send = append(a.Send, m)
	c.counters.ArrivesSent++
}
