package watchdog

// tickResult is what is to be done after a tick.
type tickResult uint8

const (
	tickAlive   tickResult = iota
	tickOrphan             // end: nobody wants it any more, and it has had its time to end
	tickStalled            // end: a loop stands still
)

// core counts the ticks of the watch. It has no clock: a pause of the whole process is no tick.
type core struct {
	stallTicks, endGraceTicks int // ticks
	orphanTicks               int // since the parent is gone
	loops                     []loopState
}

// loopState is one thing that is looked after.
type loopState struct {
	probeNumber    uint64 // number of the look under way; 0: none
	unchangedTicks int    // for which it has been
}

// tick takes which look is under way of each thing, 0 for none, and whether the process is to end: its parent is gone,
// or it was told so. which is the thing that stands still.
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
