package barrier

// turns is a barrier with slack: a rank may be in so many epochs at once, one more than the slack. So it may begin
// phase p+1 when everybody has finished phase p−slack, and not only when everybody has finished p.
//
// It is one core for each of these epochs. They take the epochs in turn: core i has those whose number is i modulo
// their count, and is a barrier of its own for them. So what holds of a core (what comes is of its present epoch, or a
// copy) holds of each, and the number of the epoch in a message tells its core.
//
// Like a core it is a step function without I/O, goroutines or clock.
type turns struct {
	cores []*Core // immutable
	epoch uint64  // to be entered next
}

// newTurns makes the turns of a core that stands before its first epoch.
func newTurns(core *Core, slack int) turns {
	t := turns{cores: []*Core{core}}
	for len(t.cores) <= slack {
		next := newCore(core.kind, core.n, core.rank)
		next.counters = core.counters
		t.cores = append(t.cores, next)
	}
	for i, c := range t.cores {
		c.step = uint64(len(t.cores))
		c.stand(uint64(i))
	}
	return t
}

// of is the core that has an epoch.
func (t *turns) of(epoch uint64) *Core { return t.cores[epoch%uint64(len(t.cores))] }

// enter enters the next epoch. Its caller waits for until to be left; open is false where that is no epoch, as in the
// first ones.
func (t *turns) enter(now int64, a *Actions) (until uint64, open bool, err error) {
	if err := t.of(t.epoch).enter(t.epoch, now, a); err != nil {
		return 0, false, err
	}
	slack := uint64(len(t.cores) - 1)
	open = t.epoch >= slack
	until = t.epoch - slack
	t.epoch++
	return until, open, nil
}

// left reports whether an epoch that was entered was left.
func (t *turns) left(epoch uint64) bool { return t.of(epoch).next() != epoch }

// oldest is the first epoch that was entered and not left; open is false where there is none.
func (t *turns) oldest() (epoch uint64, open bool) {
	for epoch = t.epoch - min(t.epoch, uint64(len(t.cores))); epoch < t.epoch; epoch++ {
		if !t.left(epoch) {
			return epoch, true
		}
	}
	return 0, false
}

// receive takes a message from a neighbour, as Core.Receive does.
func (t *turns) receive(m Message, now int64, a *Actions) error {
	return t.of(m.Epoch).Receive(m, now, a)
}

// offer is Core.Offer, for all.
func (t *turns) offer(n uint32) {
	for _, c := range t.cores {
		c.setOffer(n)
	}
}

// held tells who held the epoch that the last enter was for: the one whose core has its turn next.
func (t *turns) held() Held { return t.of(t.epoch).held }

// heldLast tells who held the epochs that no enter was for: the last ones, as many as there is slack.
func (t *turns) heldLast() (all []Held) {
	for epoch := t.epoch - min(t.epoch, uint64(len(t.cores)-1)); epoch < t.epoch; epoch++ {
		all = append(all, t.of(epoch).held)
	}
	return all
}
