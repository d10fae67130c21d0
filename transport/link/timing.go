package link

// Repair by time. The gap rule repairs everything but the tail: when the newest datagrams of a burst are lost,
// nothing later overtakes them. So after a silence the newest one is sent again as a probe (RFC 8985 §7 does the
// same for TCP); its echo lets the gap rule do the rest. Only when probes stay unanswered are the oldest datagrams
// sent again, ever more slowly.

const (
	millisecond = int64(1e6)
	initialRTT  = 20 * millisecond
	// A peer process may lose its core for a scheduler's slice or two; a probe sent sooner is mostly wasted.
	// Measured on 2 cores with 8 processes, 2026-11-21.
	minProbe   = 4 * millisecond
	minTimeout = 20 * millisecond
	maxTimeout = 500 * millisecond
	// What a long round trip may ask of later time-outs: a megabyte in the queue of a port of 100 Mbit/s, not a
	// process that stood still.
	mostTimeout = 80 * millisecond
	// What the longest round trip is assumed to be at first; each that is measured takes a part of it away. The
	// first ones are short: of signals, and of the data that a port lets through at once. If all that stands behind
	// these were sent again before it is heard of, no round trip would ever be measured, and each datagram would be
	// sent several times.
	mostAssumed = 3 * initialRTT
	assumedFor  = 16
	// A time-out repairs at most this many datagrams, so that a peer that stands still is not flooded when it wakes.
	timeoutBurst = 16
)

// rtt is the smoothed round trip (RFC 6298), and the longest of late. An echo waits behind what its sender has just
// given to a slow port, 40 ms at 200 Mbit/s, once in a cycle of phases; between, signals make short round trips that
// would let 4 × the variance forget it, and every phase begin with probes for nothing (0.3 % of all datagrams with 8
// nodes, 2026-11-21).
type rtt struct {
	smoothed, variance, least, most int64
	sampled                         bool
	assumed                         int64 // the longest one, less with each that was measured
}

func (r *rtt) init() {
	r.smoothed, r.variance, r.least, r.assumed = initialRTT, initialRTT/2, initialRTT, mostAssumed
}

// sample takes one round trip. Longer ones than maxTimeout say that the peer or the way stood still, not how long the
// way is.
func (r *rtt) sample(d int64) {
	if d < 0 {
		return
	}
	d = min(d, maxTimeout)
	r.least = min(r.least, d)
	most := min(d, mostTimeout)
	r.most = max(most, r.most-(r.most-most)/256)
	r.assumed -= r.assumed / assumedFor
	if !r.sampled { // what was assumed says nothing any more
		r.sampled, r.smoothed, r.variance = true, d, d/2
		return
	}
	dev := r.smoothed - d
	if dev < 0 {
		dev = -dev
	}
	r.variance += (dev - r.variance) / 4
	r.smoothed += (d - r.smoothed) / 8
}

func (r *rtt) timeout() int64 { return max(r.smoothed+4*r.variance, r.most, r.assumed) }

// patience is how long to wait for what was sent: longer than round trips have been, and longer each time that
// something was sent again too soon. As long as all is sent again before it is heard of, round trips are not
// measured.
func (c *Core) patience() int64 { return max(minProbe<<c.loss.hasty, c.rtt.timeout()) }

// wait is how long to stay silent before the next attempt.
func (c *Core) wait() int64 {
	if c.quick() {
		return min(max(quickProbe, 2*c.rtt.smoothed)<<(c.loss.quick+c.loss.hasty), c.patience())
	}
	if c.backoff == 0 {
		return min(maxTimeout, c.patience())
	}
	return min(maxTimeout, max(minTimeout, c.patience())<<(c.backoff-1))
}

// quick reports whether the next probe comes soon, since the way loses.
func (c *Core) quick() bool { return c.loss.quick < quickProbes && c.backoff == 0 && c.loss.lossy() }

// tolerance is how many later transmissions may arrive before a datagram counts as lost.
func (c *Core) tolerance() uint64 {
	if c.loss.lossy() {
		return 0
	}
	return reorderTolerance
}

// Deadline is when Tick must next be called, ns on the owner's clock, or 0 when there is nothing to wait for.
func (c *Core) Deadline() int64 {
	d := c.repairAt()
	if c.lazy != 0 && (d == 0 || c.lazy < d) {
		return c.lazy
	}
	return d
}

// repairAt is when the silence has lasted too long, or 0.
func (c *Core) repairAt() int64 {
	if c.send[0].live+c.send[1].live == 0 {
		return 0
	}
	return c.progress + c.wait()
}

// Silent is for how long nothing has been heard of all that is outstanding, ns.
func (c *Core) Silent(now int64) int64 {
	if c.send[0].live+c.send[1].live == 0 {
		return 0
	}
	return now - c.heardAt
}

// Tick repairs by time. It may make datagrams due; ask Next.
func (c *Core) Tick(now int64) {
	if c.lazy != 0 && now >= c.lazy {
		c.echoDue = true
	}
	d := c.repairAt()
	if d == 0 || now < d {
		return
	}
	quick := c.quick()
	probing, shrunk := quick || c.backoff == 0, false
	for l := range c.send {
		s := &c.send[l]
		if s.live == 0 || c.mayRepair(l) {
			continue
		}
		if probing {
			s.urgent = 1
			c.probe(s)
			c.stats.Probes++
		} else {
			c.stats.Timeouts++
			c.loss.timedOut(c.doubted)
			if !shrunk { // once, however many lanes are silent
				c.jam.shrink()
				shrunk = true
			}
			s.urgent = timeoutBurst
			if l == laneRequests && c.cfg.Congestion { // signals and answers are few, and no congestion window bounds them
				s.urgent = min(s.urgent, c.jam.window)
			}
			s.overdue(now-c.rtt.smoothed, s.urgent)
			s.trial = true
		}
	}
	c.progress, c.doubted = now, false
	if quick {
		c.loss.quick++
		return
	}
	if c.wait() < maxTimeout {
		c.backoff++
	}
}

// probe queues the newest outstanding datagram of a lane.
func (c *Core) probe(s *sendLane) {
	for seq := s.next - 1; int32(seq-s.low) >= 0; seq-- {
		if r := &s.ring[seq&s.mask]; r.live {
			if !r.queued {
				s.queueRepair(r, true)
			}
			return
		}
	}
}
