package barrier

// openEpochs is a barrier with slack: a rank may be in several epochs at once, one more than the slack. So it may begin
// phase p+1 when every rank has finished phase p−slack, and not only when every rank has finished p.
//
// It has one core for each of these epochs. Core i has the epochs whose number is i modulo the number of cores, and is
// a barrier of its own for them. So what holds for a core (a message is for its present epoch, or a copy) holds for
// each, and the epoch in a message selects the core.
//
// Like a core it is a step function without I/O, goroutines or clock.
type openEpochs struct {
	cores     []*Core // immutable
	nextEpoch uint64  // the next epoch to enter
}

// newOpenEpochs makes the open epochs from a core that has not begun its first epoch.
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

// coreOf returns the core of an epoch.
func (t *openEpochs) coreOf(epoch uint64) *Core { return t.cores[epoch%uint64(len(t.cores))] }

// enter enters the next epoch, and returns the epoch that the caller must wait for: the one that was entered slack
// epochs ago. In the first slack epochs there is none: then open is false, and the caller need not wait.
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

// isReleased reports whether this rank has left an epoch that it has entered.
func (t *openEpochs) isReleased(epoch uint64) bool { return t.coreOf(epoch).currentEpoch() != epoch }

// oldestOpen is the first epoch that was entered and not left; open is false if there is none.
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

// setOffer is Core.setOffer for all cores.
func (t *openEpochs) setOffer(n uint32) {
	for _, c := range t.cores {
		c.setOffer(n)
	}
}

// lastStraggler returns the straggler of the epoch that the last enter waited for: the core that comes next has it.
func (t *openEpochs) lastStraggler() Straggler { return t.coreOf(t.nextEpoch).lastStraggler }

// finalStragglers returns the stragglers of the epochs that no enter has waited for: the last ones, as many as the
// slack.
func (t *openEpochs) finalStragglers() (all []Straggler) {
	for epoch := t.nextEpoch - min(t.nextEpoch, uint64(len(t.cores)-1)); epoch < t.nextEpoch; epoch++ {
		all = append(all, t.coreOf(epoch).lastStraggler)
	}
	return all
}
