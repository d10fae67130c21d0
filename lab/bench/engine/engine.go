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
	descriptors         int    // in use
	transfersPerTrigger uint64 // transfers; at least 1

	descriptor           int    // descriptor pointer
	triggerTransfersLeft uint64 // transfers of the trigger under way, with the one that runs
	triggerPending       bool   // a trigger waits until those are done
	triggersTaken        uint64 // taken
	triggersRefused      uint64
	transfersEnded       uint64 // ended
}

// New makes an engine at its first descriptor. Less than one transfer for a trigger means one.
func New(descriptors int, perTrigger uint64) *Core {
	return &Core{descriptors: max(1, descriptors), transfersPerTrigger: max(1, perTrigger)}
}

// Step takes one input.
func (c *Core) Step(in Input) Output {
	switch in {
	case Triggered:
		return c.takeTrigger()
	case Ended:
		return c.endTransfer()
	default:
		if c.triggerPending { // it has no transfer
			c.triggersTaken, c.triggersRefused = c.triggersTaken-1, c.triggersRefused+1
		}
		c.triggerPending, c.triggerTransfersLeft = false, min(c.triggerTransfersLeft, 1)
		if c.triggerTransfersLeft == 0 {
			return Idle
		}
		return Continues
	}
}

func (c *Core) takeTrigger() Output {
	switch {
	case c.triggerTransfersLeft == 0:
		c.triggersTaken++
		c.triggerTransfersLeft = c.transfersPerTrigger
		return Start
	case c.triggerPending:
		c.triggersRefused++
		return Refused
	}
	c.triggersTaken++
	c.triggerPending = true
	return Continues
}

func (c *Core) endTransfer() Output {
	if c.triggerTransfersLeft == 0 { // none was under way
		return Idle
	}
	c.transfersEnded++
	c.descriptor = (c.descriptor + 1) % c.descriptors
	if c.triggerTransfersLeft != Endless {
		c.triggerTransfersLeft--
	}
	if c.triggerTransfersLeft == 0 && c.triggerPending {
		c.triggerPending, c.triggerTransfersLeft = false, c.transfersPerTrigger
	}
	if c.triggerTransfersLeft == 0 {
		return Idle
	}
	return Start
}

// Accepts says that a trigger would be taken: the busy line is not up.
func (c *Core) Accepts() bool { return !c.triggerPending }

// Counts tells the triggers that were taken, those that were refused or forgotten by a clear, and the transfers that
// have ended.
func (c *Core) Counts() (triggers, refused, transfers uint64) {
	return c.triggersTaken, c.triggersRefused, c.transfersEnded
}
