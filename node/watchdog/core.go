package watchdog

// verdict is what is to be done after a tick.
type verdict uint8

const (
	alive   verdict = iota
	orphan          // end: nobody wants it any more, and it has had its time to end
	stalled         // end: a loop stands still
)

// core counts the ticks of the watch. It has no clock: a pause of the whole process is no tick.
type core struct {
	stallTicks, graceTicks int // ticks
	orphanTicks            int // since the parent is gone
	loops                  []loopState
}

// loopState is one thing that is looked after.
type loopState struct {
	probe uint64 // number of the look under way; 0: none
	ticks int    // for which it has been
}

// tick takes which look is under way of each thing, 0 for none, and whether the process is to end: its parent is gone,
// or it was told so. which is the thing that stands still.
func (c *core) tick(under []uint64, gone bool) (v verdict, which int) {
	if gone {
		if c.orphanTicks++; c.orphanTicks > c.graceTicks {
			return orphan, 0
		}
	}
	for len(c.loops) < len(under) {
		c.loops = append(c.loops, loopState{})
	}
	for i, began := range under {
		x := &c.loops[i]
		if began == 0 || began != x.probe {
			*x = loopState{probe: began}
			continue
		}
		if x.ticks++; x.ticks >= c.stallTicks {
			return stalled, i
		}
	}
	return alive, 0
}
