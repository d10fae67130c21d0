package engine

// Endless are transfers of a trigger that end with a clear only: at one each nanosecond these last for 500 years.
const Endless = ^uint64(0)

// Input is what an engine is told.
type Input uint8

// What happens to an engine.
const (
	Triggered Input = iota // a trigger came, by software, by rate or by a line
	Ended                  // the transfer under way has ended
	Cleared                // the transfer under way is to be the last, and no trigger is kept
)

// Output is what an engine answers.
type Output uint8

// What an engine does then.
const (
	Idle      Output = iota // no transfer is under way
	Start                   // the transfer of the descriptor At starts now
	Continues               // the transfer that was under way goes on
	Refused                 // so does it, and the trigger is lost: one is kept already
)

// Core decides which transfer is next.
type Core struct {
	// immutable after New
	descriptors int    // in use
	perTrigger  uint64 // transfers; at least 1

	descriptor int    // descriptor pointer
	remaining  uint64 // transfers of the trigger under way, with the one that runs
	pending    bool   // a trigger waits until those are done
	triggers   uint64 // taken
	refused    uint64
	transfers  uint64 // ended
}

// New makes an engine at its first descriptor. Less than one transfer for a trigger means one.
func New(descriptors int, perTrigger uint64) *Core {
	return &Core{descriptors: max(1, descriptors), perTrigger: max(1, perTrigger)}
}

// Step takes one input.
func (c *Core) Step(in Input) Output {
	switch in {
	case Triggered:
		return c.trigger()
	case Ended:
		return c.end()
	default:
		if c.pending { // it has no transfer
			c.triggers, c.refused = c.triggers-1, c.refused+1
		}
		c.pending, c.remaining = false, min(c.remaining, 1)
		if c.remaining == 0 {
			return Idle
		}
		return Continues
	}
}

func (c *Core) trigger() Output {
	switch {
	case c.remaining == 0:
		c.triggers++
		c.remaining = c.perTrigger
		return Start
	case c.pending:
		c.refused++
		return Refused
	}
	c.triggers++
	c.pending = true
	return Continues
}

func (c *Core) end() Output {
	if c.remaining == 0 { // none was under way
		return Idle
	}
	c.transfers++
	c.descriptor = (c.descriptor + 1) % c.descriptors
	if c.remaining != Endless {
		c.remaining--
	}
	if c.remaining == 0 && c.pending {
		c.pending, c.remaining = false, c.perTrigger
	}
	if c.remaining == 0 {
		return Idle
	}
	return Start
}

// Accepts says that a trigger would be taken: the busy line is not up.
func (c *Core) Accepts() bool { return !c.pending }

// Counts tells the triggers that were taken, those that were refused or forgotten by a clear, and the transfers that
// have ended.
func (c *Core) Counts() (triggers, refused, transfers uint64) {
	return c.triggers, c.refused, c.transfers
}
