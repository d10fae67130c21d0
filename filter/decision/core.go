package decision

import (
	"fmt"
	"time"

	"ringlet/filter"
)

// Defaults, those of the experiment that the unit stands for: its front-ends keep 1820 events, one each 900 ns at most,
// which are 1638 µs (L1-farm §6.1.1; 1.6 ms in L1-farm §3.2).
const (
	DefaultMaxPending = 1820
	DefaultTimeout    = 1600 * time.Microsecond
)

// Config of a core.
type Config struct {
	MaxPending   int           // events that may wait for their turn; 0: DefaultMaxPending
	Timeout      time.Duration // from when an event is known to be triggered; 0: DefaultTimeout
	BuilderCount int           // results of other builders are refused
	Epoch        uint8         // results of other epochs are refused
	FirstEvent   uint64        // event that is decided first
	// OnDecision is told of each decision where its time went; it must not call the core. It may be nil.
	OnDecision func(LatencyBreakdown)
}

// LatencyBreakdown is where the time of a decision went, ns. All but what the builder unit took is by the clock of the
// core.
type LatencyBreakdown struct {
	Total int64 // from when its event was known to be triggered
	// SplitKnown says that the other two are known: there was a result, and it says how long the builder unit took.
	SplitKnown bool
	// Building is from when the event was known to be triggered until the result came, without what the builder unit took
	// after the last byte: its turn, the transfer, and the result's way. It is 0 where the trigger was known later than
	// that.
	Building int64
	Ordering int64 // from when the result came: events before it had none yet
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
	arrivedAt     int64 // ns
	builder       uint16
	score         uint16
	judgingMicros uint16 // µs
	verdict       filter.Decision
}

// core decides, event after event. It is owned by one goroutine at a time.
type core struct {
	cfg     Config
	timeout int64 // ns

	ring           []entry      // by event number, modulo its length
	nextEvent      uint64       // the pointer: the event that is decided next
	nextIndex      int          // its place in the ring
	triggeredTimes triggerTimes // up to where events are triggered, and since when

	noMoreResults bool // what has not come does not come any more
	stats         Stats
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
		ring:           make([]entry, cfg.MaxPending),
		nextEvent:      cfg.FirstEvent,
		nextIndex:      int(cfg.FirstEvent % uint64(cfg.MaxPending)),
		triggeredTimes: newTriggerTimes(cfg.FirstEvent, int64(cfg.Timeout)),
	}
	c.stats.FirstEvent = cfg.FirstEvent
	return c, nil
}

// maxTriggeredAtOnce bounds how many events become known to be triggered at a time: each takes a decision. They are
// those of more than a minute at 10 MHz, in which a unit may stand still.
const maxTriggeredAtOnce = 1 << 30

// markTriggered tells that events below that number are triggered. What was told before is not taken back. False: they
// cannot be.
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

// accept takes a result.
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
	if r.Event >= c.triggeredTimes.triggeredBelow { // what has a verdict was triggered, and so was what comes before it
		c.markTriggered(r.Event+1, now)
	}
	return FateUsed
}

// step appends decisions to out, in order, as many as can be made now and fit its capacity. There may be more if it
// fills it.
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
			case c.triggeredTimes.triggeredBelow-c.nextEvent > uint64(len(c.ring)): // its place is needed
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

// breakdown are those of a decision that is made now.
func (e *entry) breakdown(since, now int64) LatencyBreakdown {
	p := LatencyBreakdown{Total: now - since}
	if e.verdict == 0 || e.judgingMicros == MaxTookMicros {
		return p
	}
	p.SplitKnown, p.Ordering = true, now-e.arrivedAt
	p.Building = max(0, e.arrivedAt-since-int64(e.judgingMicros)*int64(time.Microsecond))
	return p
}

// nextTimeout is when the next event times out, if nothing comes; false if there is none that could.
func (c *core) nextTimeout() (at int64, ok bool) {
	if c.nextEvent >= c.triggeredTimes.triggeredBelow {
		return 0, false
	}
	return c.triggeredTimes.lookup(c.nextEvent).timeoutFrom + c.timeout, true
}

// endResults tells that no result will come any more: step decides all events that are triggered.
func (c *core) endResults() { c.noMoreResults = true }

// snapshot gives the counters.
func (c *core) snapshot() Stats {
	s := c.stats
	s.Pending, s.MaxPending = c.triggeredTimes.triggeredBelow-c.nextEvent, uint64(len(c.ring))
	return s
}
