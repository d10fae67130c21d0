package decision

import (
	"fmt"
	"time"

	"ringlet/filter"
)

// Defaults from the experiment that the unit stands for. Its front-ends keep 1820 events, which come at least 900 ns
// apart, so an event stays for 1638 µs at least (L1-farm §6.1.1; 1.6 ms in L1-farm §3.2).
const (
	DefaultMaxPending = 1820
	DefaultTimeout    = 1600 * time.Microsecond
)

// Config is the configuration of a core.
type Config struct {
	MaxPending   int           // events that may wait for their decision; 0: DefaultMaxPending
	Timeout      time.Duration // from when an event is known to be triggered; 0: DefaultTimeout
	BuilderCount int           // results of other builders are refused
	Epoch        uint8         // results of other epochs are refused
	FirstEvent   uint64        // event that is decided first
	// OnDecision is called with the latency of each decision; it must not call the core. It may be nil.
	OnDecision func(LatencyBreakdown)
}

// LatencyBreakdown is how the latency of a decision divides, in ns. All times but the builder unit's own are by the
// core's clock.
type LatencyBreakdown struct {
	Total int64 // from when its event was known to be triggered
	// SplitKnown says that the other two are known: there was a result with the time that the builder unit took.
	SplitKnown bool
	// Building is from the trigger of the event until its result came, without what the builder unit took after the last
	// byte: the event's turn, the transfer, and the way of the result. It is 0 if the core knew of the trigger only
	// later.
	Building int64
	Ordering int64 // from when the result came until the decision: earlier events had none yet
}

func (c *Config) setDefaults() {
	if c.MaxPending == 0 {
		c.MaxPending = DefaultMaxPending
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
}

func (c *Config) check() error {
	switch {
	case c.MaxPending < 1 || c.MaxPending > 1<<30:
		return fmt.Errorf("a decision unit of %d events: give 1 to 2^30", c.MaxPending)
	case c.Timeout < time.Microsecond:
		return fmt.Errorf("a time-out of %v for decisions: give 1µs or more", c.Timeout)
	case c.BuilderCount < 1 || c.BuilderCount > int(noBuilder):
		return fmt.Errorf("decisions of %d builder units: give 1 to %d", c.BuilderCount, noBuilder)
	case c.FirstEvent >= maxEventNumber:
		return fmt.Errorf("decisions from event %d on: it must be below 2^48", c.FirstEvent)
	}
	return nil
}

// Fate is what the core did with a result.
type Fate uint8

// Fates. Only FateUsed changed the core.
const (
	FateUsed           Fate = iota
	FateLate                // its event has its decision already
	FateDoubled             // its event has a result already
	FateAhead               // its event is more than MaxPending ahead
	FateOldEpoch            // it is for an earlier epoch of the unit
	FateUnknownBuilder      // it is from an unknown builder unit
	FateNoVerdict           // its decision is invalid
	numberOfFates
)

// entry is the place of an event. A zero verdict says that no result has come.
type entry struct {
	arrivedAt     int64 // ns
	builder       uint16
	score         uint16
	judgingMicros uint16 // µs
	verdict       filter.Decision
}

// core decides events in order. One goroutine at a time owns it.
type core struct {
	cfg     Config
	timeout int64 // ns

	ring           []entry      // by event number, modulo its length
	nextEvent      uint64       // the read pointer: the next event to be decided
	nextIndex      int          // index of nextEvent in ring
	triggeredTimes triggerTimes // up to which event, and since when, events are triggered

	noMoreResults bool // results that have not come will not come
	stats         Stats
}

func makeCore(cfg Config) (*core, error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &core{
		cfg:            cfg,
		timeout:        int64(cfg.Timeout),
		ring:           make([]entry, cfg.MaxPending),
		nextEvent:      cfg.FirstEvent,
		nextIndex:      int(cfg.FirstEvent % uint64(cfg.MaxPending)),
		triggeredTimes: newTriggerTimes(cfg.FirstEvent, int64(cfg.Timeout)),
	}
	c.stats.FirstEvent = cfg.FirstEvent
	return c, nil
}

// maxTriggeredAtOnce bounds how many events one call may mark as triggered, since each needs a decision. A call brings
// many events after a unit has stalled: at 10 MHz this number is reached in 107 s.
const maxTriggeredAtOnce = 1 << 30

// markTriggered marks all events below a number as triggered. A lower number than before changes nothing. False: the
// number is impossible.
func (c *core) markTriggered(below uint64, now int64) bool {
	switch {
	case below <= c.triggeredTimes.triggeredBelow:
		return true
	case below > maxEventNumber, below-c.triggeredTimes.triggeredBelow > maxTriggeredAtOnce:
		return false
	}
	c.triggeredTimes.advance(below, now)
	c.stats.Triggered = below - c.cfg.FirstEvent
	return true
}

// accept puts a result into its place, and counts what became of it.
func (c *core) accept(r *Result, now int64) Fate {
	fate := c.applyResult(r, now)
	c.stats.Results[fate]++
	return fate
}

func (c *core) applyResult(r *Result, now int64) Fate {
	switch {
	case r.Epoch != c.cfg.Epoch:
		return FateOldEpoch
	case int(r.Builder) >= c.cfg.BuilderCount:
		return FateUnknownBuilder
	case !r.Decision.Valid() && r.Decision != Void:
		return FateNoVerdict
	case r.Event < c.nextEvent:
		return FateLate
	case r.Event-c.nextEvent >= uint64(len(c.ring)):
		return FateAhead
	}
	at := c.nextIndex + int(r.Event-c.nextEvent)
	if at >= len(c.ring) {
		at -= len(c.ring)
	}
	e := &c.ring[at]
	if e.verdict != 0 {
		return FateDoubled
	}
	*e = entry{
		arrivedAt:     now,
		builder:       r.Builder,
		score:         r.Score,
		judgingMicros: r.TookMicros,
		verdict:       r.Decision,
	}
	if r.Event >= c.triggeredTimes.triggeredBelow { // a judged event was triggered, and so were the events before it
		c.markTriggered(r.Event+1, now)
	}
	return FateUsed
}

// step appends as many decisions to out, in order, as can be made now and fit its capacity. If out is full, there may
// be more.
func (c *core) step(now int64, out []Result) []Result {
	for len(out) < cap(out) && c.nextEvent < c.triggeredTimes.triggeredBelow {
		m := c.triggeredTimes.lookup(c.nextEvent)
		e := &c.ring[c.nextIndex]
		d := Result{
			Event:    c.nextEvent,
			Builder:  e.builder,
			Decision: e.verdict,
			Epoch:    c.cfg.Epoch,
			Score:    e.score,
		}
		if e.verdict == 0 {
			switch {
			case c.noMoreResults:
				c.stats.Unanswered++
			case now >= m.timeoutFrom+c.timeout:
				c.stats.TimedOut++
			case c.triggeredTimes.triggeredBelow-c.nextEvent > uint64(len(c.ring)): // a later event needs its place
				c.stats.Overrun++
			default:
				return out
			}
			d.Builder, d.Decision = noBuilder, filter.TimedOut
		}
		was := *e
		*e = entry{}
		c.nextEvent++
		if c.nextIndex++; c.nextIndex == len(c.ring) {
			c.nextIndex = 0
		}
		if d.Decision == Void {
			c.stats.Void++
			continue
		}
		d.TookMicros = clampMicros(time.Duration(now - m.firstTriggeredAt))
		p := was.breakdown(m.firstTriggeredAt, now)
		if was.verdict != 0 && !p.SplitKnown {
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

// breakdown returns the latency of a decision that is made now, for an event triggered at since.
func (e *entry) breakdown(since, now int64) LatencyBreakdown {
	p := LatencyBreakdown{Total: now - since}
	if e.verdict == 0 || e.judgingMicros == MaxTookMicros {
		return p
	}
	p.SplitKnown, p.Ordering = true, now-e.arrivedAt
	p.Building = max(0, e.arrivedAt-since-int64(e.judgingMicros)*int64(time.Microsecond))
	return p
}

// nextTimeout returns when the next event times out; false if no triggered event waits.
func (c *core) nextTimeout() (at int64, ok bool) {
	if c.nextEvent >= c.triggeredTimes.triggeredBelow {
		return 0, false
	}
	return c.triggeredTimes.lookup(c.nextEvent).timeoutFrom + c.timeout, true
}

// endResults says that no result will come any more: step then decides all triggered events.
func (c *core) endResults() { c.noMoreResults = true }

// snapshot returns the counters.
func (c *core) snapshot() Stats {
	s := c.stats
	s.Pending, s.MaxPending = c.triggeredTimes.triggeredBelow-c.nextEvent, uint64(len(c.ring))
	return s
}
