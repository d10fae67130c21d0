package core

// latencyRun counts MEPs in a row with the same latency: MEPs that were built together mostly have it, and so become
// one entry of the histogram.
type latencyRun struct{ us, count int64 }

// issuedAt points to the time at which the token for a slot was issued. A slot has one token at a time.
func (c *Core) issuedAt(bu int, slot uint32) *int64 {
	return &c.issueTimes[bu*c.set.View.Slots+int(slot)]
}

// recordCompletion records that a MEP was complete at a time, in ns. The latency of a reissued MEP counts from its last
// token.
func (c *Core) recordCompletion(bu int, f Feedback, at int64, run *latencyRun) {
	c.lastMEPAt = max(c.lastMEPAt, at)
	if f.Outcome != Built {
		return
	}
	us := (at - *c.issuedAt(bu, f.Slot)) / 1000
	if us < 0 || us > maxLatencyUs {
		c.clippedLatencies++
		us = max(0, min(us, maxLatencyUs))
	}
	if us != run.us {
		c.recordLatency(*run)
		*run = latencyRun{us: us}
	}
	run.count++
}

func (c *Core) recordLatency(run latencyRun) {
	if run.count > 0 {
		_ = c.latency.RecordValues(run.us, run.count) // cannot fail: the value was clipped to the range
	}
}

// unixNano turns a time of the Core into ns since the Unix epoch; 0 stays 0.
func (c *Core) unixNano(ns int64) int64 {
	if ns == 0 {
		return 0
	}
	return c.set.Began + ns
}
