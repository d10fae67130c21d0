package decision

import (
	"fmt"
	"time"

	"ringlet/filter"
)

// Defaults, those of the experiment that the unit stands for: its front-ends keep 1820 events, one each 900 ns at most,
// which are 1638 µs (L1-farm §6.1.1; 1.6 ms in L1-farm §3.2).
const (
	DefaultDepth   = 1820
	DefaultTimeout = 1600 * time.Microsecond
)

// Config of a core.
type Config struct {
	Depth    int           // events that may wait for their turn; 0: DefaultDepth
	Timeout  time.Duration // from when an event is known to be triggered; 0: DefaultTimeout
	Builders int           // results of other builders are refused
	Epoch    uint8         // results of other epochs are refused
	First    uint64        // event that is decided first
	// OnDecision is told of each decision where its time went; it must not call the core. It may be nil.
	OnDecision func(LatencyBreakdown)
}

// LatencyBreakdown is where the time of a decision went, ns. All but what the builder unit took is by the clock of the
// core.
type LatencyBreakdown struct {
	Total int64 // from when its event was known to be triggered
	// Complete says that the other two are known: there was a result, and it says how long the builder unit took.
	Complete bool
	// Building is from when the event was known to be triggered until the result came, without what the builder unit took
	// after the last byte: its turn, the transfer, and the result's way. It is 0 where the trigger was known later than
	// that.
	Building int64
	Ordering int64 // from when the result came: events before it had none yet
}

func (c *Config) setDefaults() {
	if c.Depth == 0 {
		c.Depth = DefaultDepth
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
}

func (c *Config) check() error {
	switch {
	case c.Depth < 1 || c.Depth > 1<<30:
		return fmt.Errorf("a decision unit of %d events: give 1 to 2^30", c.Depth)
	case c.Timeout < time.Microsecond:
		return fmt.Errorf("a time-out of %v for decisions: give 1µs or more", c.Timeout)
	case c.Builders < 1 || c.Builders > int(noBuilder):
		return fmt.Errorf("decisions of %d builder units: give 1 to %d", c.Builders, noBuilder)
	case c.First >= maxEvent:
		return fmt.Errorf("decisions from event %d on: it must be below 2^48", c.First)
	}
	return nil
}

// Fate is what became of a result.
type Fate uint8

// Fates. All but FateUsed changed nothing.
const (
	FateUsed           Fate = iota
	FateLate                // its event has its decision
	FateDoubled             // its event has a result
	FateAhead               // its event is further ahead than the unit is deep
	FateOldEpoch            // it is for another life of the unit
	FateUnknownBuilder      // there is no such builder unit
	FateNoVerdict           // its verdict is none
	numberOfFates
)

// entry is the place of an event. A zero verdict says that nothing has come.
type entry struct {
	arrived int64 // ns
	builder uint16
	score   uint16
	took    uint16 // µs
	verdict filter.Decision
}

// core decides, event after event. It is owned by one goroutine at a time.
type core struct {
	cfg     Config
	timeout int64 // ns

	ring           []entry      // by event number, modulo its length
	next           uint64       // the pointer: the event that is decided next
	index          int          // its place in the ring
	triggeredTimes triggerTimes // up to where events are triggered, and since when

	finished bool // what has not come does not come any more
	stats    Stats
}

// makeCore makes a core.
func makeCore(cfg Config) (*core, error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &core{
		cfg:            cfg,
		timeout:        int64(cfg.Timeout),
		ring:           make([]entry, cfg.Depth),
		next:           cfg.First,
		index:          int(cfg.First % uint64(cfg.Depth)),
		triggeredTimes: newTriggerTimes(cfg.First, int64(cfg.Timeout)),
	}
	c.stats.First = cfg.First
	return c, nil
}

// maxTriggeredAtOnce bounds how many events become known to be triggered at a time: each takes a decision. They are
// those of more than a minute at 10 MHz, in which a unit may stand still.
const maxTriggeredAtOnce = 1 << 30

// triggered tells that events below that number are triggered. What was told before is not taken back. False: they
// cannot be.
func (c *core) triggered(below uint64, now int64) bool {
	switch {
	case below <= c.triggeredTimes.below:
		return true
	case below > maxEvent, below-c.triggeredTimes.below > maxTriggeredAtOnce:
		return false
	}
	c.triggeredTimes.advance(below, now)
	c.stats.Triggered = below - c.cfg.First
	return true
}

// accept takes a result.
func (c *core) accept(r *Result, now int64) Fate {
	fate := c.use(r, now)
	c.stats.Results[fate]++
	return fate
}

func (c *core) use(r *Result, now int64) Fate {
	switch {
	case r.Epoch != c.cfg.Epoch:
		return FateOldEpoch
	case int(r.Builder) >= c.cfg.Builders:
		return FateUnknownBuilder
	case !r.Decision.Valid() && r.Decision != Void:
		return FateNoVerdict
	case r.Event < c.next:
		return FateLate
	case r.Event-c.next >= uint64(len(c.ring)):
		return FateAhead
	}
	at := c.index + int(r.Event-c.next)
	if at >= len(c.ring) {
		at -= len(c.ring)
	}
	e := &c.ring[at]
	if e.verdict != 0 {
		return FateDoubled
	}
	*e = entry{
		arrived: now,
		builder: r.Builder,
		score:   r.Score,
		took:    r.Took,
		verdict: r.Decision,
	}
	if r.Event >= c.triggeredTimes.below { // what has a verdict was triggered, and so was what comes before it
		c.triggered(r.Event+1, now)
	}
	return FateUsed
}

// step appends decisions to out, in order, as many as can be made now and fit its capacity. There may be more if it
// fills it.
func (c *core) step(now int64, out []Result) []Result {
	for len(out) < cap(out) && c.next < c.triggeredTimes.below {
		m := c.triggeredTimes.lookup(c.next)
		e := &c.ring[c.index]
		d := Result{
			Event:    c.next,
			Builder:  e.builder,
			Decision: e.verdict,
			Epoch:    c.cfg.Epoch,
			Score:    e.score,
		}
		if e.verdict == 0 {
			switch {
			case c.finished:
				c.stats.Unanswered++
			case now >= m.due+c.timeout:
				c.stats.TimedOut++
			case c.triggeredTimes.below-c.next > uint64(len(c.ring)): // its place is needed
				c.stats.Overrun++
			default:
				return out
			}
			d.Builder, d.Decision = noBuilder, filter.TimedOut
		}
		was := *e
		*e = entry{}
		c.next++
		if c.index++; c.index == len(c.ring) {
			c.index = 0
		}
		if d.Decision == Void {
			c.stats.Void++
			continue
		}
		d.Took = tookMicros(time.Duration(now - m.since))
		p := was.breakdown(m.since, now)
		if was.verdict != 0 && !p.Complete {
			c.stats.Unsplit++
		}
		if c.cfg.OnDecision != nil {
			c.cfg.OnDecision(p)
		}
		c.stats.Decided[d.Decision]++
		out = append(out, d)
	}
	return out
}

// breakdown are those of a decision that is made now.
func (e *entry) breakdown(since, now int64) LatencyBreakdown {
	p := LatencyBreakdown{Total: now - since}
	if e.verdict == 0 || e.took == MaxTook {
		return p
	}
	p.Complete, p.Ordering = true, now-e.arrived
	p.Building = max(0, e.arrived-since-int64(e.took)*int64(time.Microsecond))
	return p
}

// due is when the next event times out, if nothing comes; false if there is none that could.
func (c *core) due() (at int64, ok bool) {
	if c.next >= c.triggeredTimes.below {
		return 0, false
	}
	return c.triggeredTimes.lookup(c.next).due + c.timeout, true
}

// Finish tells that no result will come any more: step decides all events that are triggered.
func (c *core) Finish() { c.finished = true }

// snapshot gives the counters.
func (c *core) snapshot() Stats {
	s := c.stats
	s.Pending, s.Depth = c.triggeredTimes.below-c.next, uint64(len(c.ring))
	return s
}
