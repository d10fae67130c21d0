package link

// Repair by time. The gap rule repairs everything but the tail: when the newest datagrams of a burst are lost,
// nothing later overtakes them. So after a silence the newest one is sent again as a probe (RFC 8985 §7 does the
// same for TCP); its ack lets the gap rule do the rest. Only when probes stay unanswered are the oldest datagrams
// sent again, ever more slowly.

const (
	millisecond = int64(1e6)
	initialRTT  = 20 * millisecond
	// A peer process may lose its core for a scheduler's slice or two; a probe sent sooner is mostly wasted.
	// Measured on 2 cores with 8 processes, 2026-11-21.
	minProbeDelay = 4 * millisecond
	minTimeout    = 20 * millisecond
	maxTimeout    = 500 * millisecond
	// What a long round trip may ask of later time-outs: a megabyte in the queue of a port of 100 Mbit/s, not a
	// process that stood still.
	maxRTTTimeout = 80 * millisecond
	// What the longest round trip is assumed to be at first; each that is measured takes a part of it away. The
	// first ones are short: of signals, and of the data that a port lets through at once. If all that stands behind
	// these were sent again before it is heard of, no round trip would ever be measured, and each datagram would be
	// sent several times.
	initialAssumedRTT = 3 * initialRTT
	assumedDecay      = 16
	// A time-out repairs at most this many datagrams, so that a peer that stands still is not flooded when it wakes.
	maxTimeoutRepairs = 16
)

// rtt is the smoothed round trip (RFC 6298), and the longest of late. An ack waits behind what its sender has just
// given to a slow port, 40 ms at 200 Mbit/s, once in a cycle of phases; between, signals make short round trips that
// would let 4 × the variance forget it, and every phase begin with probes for nothing (0.3 % of all datagrams with 8
// nodes, 2026-11-21).
type rtt struct {
	smoothed, variance, min, recentMax int64
	hasSample                          bool
	assumedMax                         int64 // the longest one, less with each that was measured
}

func (r *rtt) init() {
	r.smoothed, r.variance, r.min, r.assumedMax = initialRTT, initialRTT/2, initialRTT, initialAssumedRTT
}

// addSample takes one round trip. Longer ones than maxTimeout say that the peer or the path stood still, not how long
// the path is.
func (r *rtt) addSample(d int64) {
	if d < 0 {
		return
	}
	d = min(d, maxTimeout)
	r.min = min(r.min, d)
	capped := min(d, maxRTTTimeout)
	r.recentMax = max(capped, r.recentMax-(r.recentMax-capped)/256)
	r.assumedMax -= r.assumedMax / assumedDecay
	if !r.hasSample { // what was assumed says nothing any more
		r.hasSample, r.smoothed, r.variance = true, d, d/2
		return
	}
	dev := r.smoothed - d
	if dev < 0 {
		dev = -dev
	}
	r.variance += (dev - r.variance) / 4
	r.smoothed += (d - r.smoothed) / 8
}

func (r *rtt) timeout() int64 { return max(r.smoothed+4*r.variance, r.recentMax, r.assumedMax) }

// pto is how long to wait for what was sent: longer than round trips have been, and longer each time that
// something was sent again too soon. As long as all is sent again before it is heard of, round trips are not
// measured.
func (c *Core) pto() int64 { return max(minProbeDelay<<c.loss.spuriousBackoff, c.rtt.timeout()) }

// repairDelay is how long to stay silent before the next attempt.
func (c *Core) repairDelay() int64 {
	if c.probesQuickly() {
		return min(max(quickProbeDelay, 2*c.rtt.smoothed)<<(c.loss.quickProbes+c.loss.spuriousBackoff), c.pto())
	}
	if c.backoff == 0 {
		return min(maxTimeout, c.pto())
	}
	return min(maxTimeout, max(minTimeout, c.pto())<<(c.backoff-1))
}

// probesQuickly reports whether the next probe comes soon, since the path loses.
func (c *Core) probesQuickly() bool {
	return c.loss.quickProbes < maxQuickProbes && c.backoff == 0 && c.loss.isLossy()
}

// reorderThreshold is how many later transmissions may arrive before a datagram counts as lost.
func (c *Core) reorderThreshold() uint64 {
	if c.loss.isLossy() {
		return 0
	}
	return packetThreshold
}

// Deadline is when Tick must next be called, ns on the owner's clock, or 0 when there is nothing to wait for.
func (c *Core) Deadline() int64 {
	d := c.repairDeadline()
	if c.ackDeadline != 0 && (d == 0 || c.ackDeadline < d) {
		return c.ackDeadline
	}
	return d
}

// repairDeadline is when the silence has lasted too long, or 0.
func (c *Core) repairDeadline() int64 {
	if c.send[0].inFlight+c.send[1].inFlight == 0 {
		return 0
	}
	return c.lastProgress + c.repairDelay()
}

// SilentFor is for how long nothing has been heard of all that is outstanding, ns.
func (c *Core) SilentFor(now int64) int64 {
	if c.send[0].inFlight+c.send[1].inFlight == 0 {
		return 0
	}
	return now - c.silentSince
}

// Tick repairs by time. It may make datagrams due; ask Next.
func (c *Core) Tick(now int64) {
	if c.ackDeadline != 0 && now >= c.ackDeadline {
		c.ackDue = true
	}
	d := c.repairDeadline()
	if d == 0 || now < d {
		return
	}
	quick := c.probesQuickly()
	probing, shrunk := quick || c.backoff == 0, false
	for l := range c.send {
		s := &c.send[l]
		if s.inFlight == 0 || c.mayRepair(l) {
			continue
		}
		if probing {
			s.urgentRepairs = 1
			c.queueProbe(s)
			c.stats.Probes++
		} else {
			c.stats.Timeouts++
			c.loss.onTimeout(c.ambiguousAcks)
			if !shrunk { // once, however many spaces are silent
				c.congestion.shrink()
				shrunk = true
			}
			s.urgentRepairs = maxTimeoutRepairs
			// signals and answers are few, and no congestion window bounds them
			if l == spaceRequests && c.cfg.CongestionControl {
				s.urgentRepairs = min(s.urgentRepairs, c.congestion.window)
			}
			s.repairOverdue(now-c.rtt.smoothed, s.urgentRepairs)
			s.fragmentNext = true
		}
	}
	c.lastProgress, c.ambiguousAcks = now, false
	if quick {
		c.loss.quickProbes++
		return
	}
	if c.repairDelay() < maxTimeout {
		c.backoff++
	}
}

// queueProbe queues the newest outstanding datagram of a space.
func (c *Core) queueProbe(s *sendSpace) {
	for seq := s.nextNumber - 1; int32(seq-s.oldestLive) >= 0; seq-- {
		if r := &s.records[seq&s.mask]; r.outstanding {
			if !r.repairQueued {
				s.queueRepair(r, true)
			}
			return
		}
	}
}
