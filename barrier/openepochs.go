package barrier

// openEpochs is a barrier with slack: a rank may be in so many epochs at once, one more than the slack. So it may begin
// phase p+1 when everybody has finished phase p−slack, and not only when everybody has finished p.
//
// It is one core for each of these epochs. They take the epochs in turn: core i has those whose number is i modulo
// their count, and is a barrier of its own for them. So what holds of a core (what comes is of its present epoch, or a
// copy) holds of each, and the number of the epoch in a message tells its core.
//
// Like a core it is a step function without I/O, goroutines or clock.
type openEpochs struct {
	cores     []*Core // immutable
	nextEpoch uint64  // to be entered next
}

// newOpenEpochs makes the open epochs of a core that stands before its first epoch.
func newOpenEpochs(core *Core, slack int) openEpochs {
	t := openEpochs{cores: []*Core{core}}
	for len(t.cores) <= slack {
		next := newCore(core.kind, core.n, core.rank)
		next.counters = core.counters
		t.cores = append(t.cores, next)
	}
	for i, c := range t.cores {
		c.epochStride = uint64(len(t.cores))
		c.beginEpoch(uint64(i))
	}
	return t
}

// coreOf is the core that has an epoch.
func (t *openEpochs) coreOf(epoch uint64) *Core { return t.cores[epoch%uint64(len(t.cores))] }

// enter enters the next epoch. Its caller waits for until to be left; open is false where that is no epoch, as in the
// first ones.
func (t *openEpochs) enter(now int64, a *Actions) (awaited uint64, open bool, err error) {
	if err := t.coreOf(t.nextEpoch).enter(t.nextEpoch, now, a); err != nil {
		return 0, false, err
	}
	slack := uint64(len(t.cores) - 1)
	open = t.nextEpoch >= slack
	awaited = t.nextEpoch - slack
	t.nextEpoch++
	return awaited, open, nil
}

// isReleased reports whether an epoch that was entered was left.
func (t *openEpochs) isReleased(epoch uint64) bool { return t.coreOf(epoch).currentEpoch() != epoch }

// oldestOpen is the first epoch that was entered and not left; open is false where there is none.
func (t *openEpochs) oldestOpen() (epoch uint64, open bool) {
	for epoch = t.nextEpoch - min(t.nextEpoch, uint64(len(t.cores))); epoch < t.nextEpoch; epoch++ {
		if !t.isReleased(epoch) {
			return epoch, true
		}
	}
	return 0, false
}

// receive takes a message from a neighbour, as Core.Receive does.
func (t *openEpochs) receive(m Message, now int64, a *Actions) error {
	return t.coreOf(m.Epoch).Receive(m, now, a)
}

// setOffer is Core.setOffer, for all.
func (t *openEpochs) setOffer(n uint32) {
	for _, c := range t.cores {
		c.setOffer(n)
	}
}

// lastStraggler tells who held the epoch that the last enter was for: the one whose core has its turn next.
func (t *openEpochs) lastStraggler() Straggler { return t.coreOf(t.nextEpoch).lastStraggler }

// finalStragglers tells who held the epochs that no enter was for: the last ones, as many as there is slack.
func (t *openEpochs) finalStragglers() (all []Straggler) {
	for epoch := t.nextEpoch - min(t.nextEpoch, uint64(len(t.cores)-1)); epoch < t.nextEpoch; epoch++ {
		all = append(all, t.coreOf(epoch).lastStraggler)
	}
	return all
}
