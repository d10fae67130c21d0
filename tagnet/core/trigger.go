package core

// MaxTriggers is how many triggers may wait for their MEP to be issued (the buffer of event IDs in TagNet-farm §VII.C).
const MaxTriggers = 1 << 16

// triggers gate the issue of MEPs: each trigger lets one more MEP, which has one event, be issued.
type triggers struct {
	below   uint64 // MEPs below were triggered; NoMEP without a trigger
	waiting depth  // triggers whose MEP was not issued; without a trigger it has no message

	// the last trigger by hand: a repeated request changes nothing
	lastRequest, lastTaken uint64
	// that came before the state of a lost scheduler was rebuilt: they are taken then
	early Triggered
}

// TriggerTotals are what a scheduler tells readout units of its triggers, for a successor. They are zero without a
// trigger.
type TriggerTotals struct {
	Taken   uint64 // each lets one MEP be issued, from the first on
	Refused uint64
	Lost    uint64 // dropped by the kernel
}

// triggerTotals are the totals now.
func (c *inputs) triggerTotals() (t TriggerTotals) {
	if n := c.counters; c.cfg.Trigger != "" {
		t = TriggerTotals{Taken: n.Triggers, Refused: n.TriggersRefused, Lost: n.TriggersLost}
	}
	return t
}

// rebuildTriggers sets what a lost scheduler had told of its triggers: those that have no MEP yet wait.
func (c *inputs) rebuildTriggers(known TriggerTotals) {
	if n := c.counters; c.cfg.Trigger != "" {
		c.triggers.below = max(c.cfg.FirstMEP+known.Taken, c.nextMEP)
		n.Triggers, n.TriggersRefused, n.TriggersLost = c.triggers.below-c.cfg.FirstMEP, known.Refused, known.Lost
		c.noteTriggers()
	}
}

func newTriggers(cfg *Config) triggers {
	if cfg.Trigger == "" {
		return triggers{below: NoMEP}
	}
	return triggers{below: cfg.FirstMEP, waiting: newDepth(MaxTriggers)}
}

// trigger takes triggers as far as they may wait and the run has events for them, counts the others as refused, and
// returns how many it took.
func (c *inputs) trigger(n uint64) (taken uint64) {
	t := &c.triggers
	if c.cfg.Trigger == "" || c.draining {
		c.counters.TriggersRefused += n
		return 0
	}
	t.below = max(t.below, c.nextMEP)
	end := min(c.nextMEP+MaxTriggers, c.endMEP)
	if c.cfg.MaxEvents > 0 {
		end = min(end, c.cfg.FirstMEP+c.cfg.MaxEvents)
	}
	if c.inputEnded {
		end = min(end, c.readWatermark)
	}
	taken = min(n, max(end, t.below)-t.below)
	t.below += taken
	c.counters.Triggers += taken
	c.counters.TriggersRefused += n - taken
	c.noteTriggers()
	return taken
}

// triggerByHand is trigger for a request of the control, which repeats it until it is answered.
func (c *inputs) triggerByHand(n, request uint64) (taken uint64, err error) {
	t := &c.triggers
	switch {
	case c.cfg.Trigger == "":
		return 0, c.refuse(NotNow, "scheduler", "the run has no trigger: its data come at their rate")
	case request != 0 && request == t.lastRequest:
		return t.lastTaken, nil
	}
	taken = c.trigger(n)
	t.lastRequest, t.lastTaken = request, taken
	return taken, nil
}

// noteTriggers notes how many triggers wait.
func (c *inputs) noteTriggers() {
	if c.cfg.Trigger != "" {
		c.triggers.waiting.set(c.triggers.below - min(c.triggers.below, c.nextMEP))
	}
}

// Triggered is triggers from outside: Count were received, Lost were dropped by the kernel before.
type Triggered struct{ Count, Lost uint64 }

func (in Triggered) step(c *Core) Answer {
	if early := &c.alloc.triggers.early; c.succession != nil {
		early.Count, early.Lost = early.Count+in.Count, early.Lost+in.Lost
		return Answer{}
	}
	c.alloc.counters.TriggersLost += in.Lost
	return Answer{Triggers: c.alloc.trigger(in.Count)}
}
