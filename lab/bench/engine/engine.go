package engine

// Endless is the number of transfers of a trigger that only a clear ends: at one transfer each ns it lasts 500 years.
const Endless = ^uint64(0)

// Input is an event that Step handles.
type Input uint8

// Inputs of an engine.
const (
	Triggered Input = iota // a trigger came, by software, by rate or by a line
	Ended                  // the transfer under way has ended
	Cleared                // the transfer under way is to be the last, and no trigger is kept
)

// Output is what the engine does after an input.
type Output uint8

// Outputs of an engine.
const (
	Idle      Output = iota // no transfer is under way
	Start                   // the next descriptor's transfer starts now
	Continues               // the transfer that was under way goes on
	Refused                 // the transfer under way goes on, and the trigger is lost: another one is kept already
)

// Core decides which transfer starts next.
type Core struct {
	// immutable after New
	descriptors         int    // descriptors in use
	transfersPerTrigger uint64 // transfers; at least 1

	descriptor           int    // descriptor pointer
	triggerTransfersLeft uint64 // transfers left of the trigger under way, with the one that runs
	triggerPending       bool   // a trigger waits until those have ended
	triggersTaken        uint64
	triggersRefused      uint64
	transfersEnded       uint64
}

// New makes an engine at its first descriptor. Values below 1 count as 1.
func New(descriptors int, perTrigger uint64) *Core {
	return &Core{descriptors: max(1, descriptors), transfersPerTrigger: max(1, perTrigger)}
}

// Step handles one input.
func (c *Core) Step(in Input) Output {
	switch in {
	case Triggered:
		return c.takeTrigger()
	case Ended:
		return c.endTransfer()
	default:
		if c.triggerPending { // its transfers have not begun
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

// Accepts says whether the engine would take a trigger now: the busy line is not up.
func (c *Core) Accepts() bool { return !c.triggerPending }

// Counts returns three numbers: of triggers taken; of triggers lost, which were refused, or were kept and dropped by
// the input Cleared; and of transfers that have ended. A dropped trigger no longer counts as taken.
func (c *Core) Counts() (triggers, refused, transfers uint64) {
	return c.triggersTaken, c.triggersRefused, c.transfersEnded
}
