package watchdog

// tickResult is the result of a tick.
type tickResult uint8

const (
	tickAlive   tickResult = iota
	tickOrphan             // end: the process is no longer wanted, and has had its time to end
	tickStalled            // end: a loop stands still
)

// core counts the ticks of the watchdog. It has no clock: while the whole process is stopped there are no ticks.
type core struct {
	stallTicks, endGraceTicks int // ticks
	orphanTicks               int // ticks since the parent is gone
	loops                     []loopState
}

// loopState is the state of one loop's probe.
type loopState struct {
	probeNumber    uint64 // number of the probe under way; 0: none
	unchangedTicks int    // ticks for which it has been under way
}

// tick gets the number of the probe under way of each loop, 0 for none, and whether the process is to end: its parent
// is gone, or its end was requested. which is the index of a loop that stands still.
func (c *core) tick(under []uint64, gone bool) (v tickResult, which int) {
	if gone {
		if c.orphanTicks++; c.orphanTicks > c.endGraceTicks {
			return tickOrphan, 0
		}
	}
	for len(c.loops) < len(under) {
		c.loops = append(c.loops, loopState{})
	}
	for i, began := range under {
		x := &c.loops[i]
		if began == 0 || began != x.probeNumber {
			*x = loopState{probeNumber: began}
			continue
		}
		if x.unchangedTicks++; x.unchangedTicks >= c.stallTicks {
			return tickStalled, i
		}
	}
	return tickAlive, 0
}
