package config

import (
	"time"

	"ringlet/readoutunit/source"
	"ringlet/readoutunit/source/live"
)

// leastWait is the shortest fragment-timeout and flush-after: less is not worth a timer.
const leastWait = time.Millisecond

// checkWaits checks the times of live sources, whether there are any or not.
func (c *Config) checkWaits(p *problems) {
	if c.FragmentTimeout < leastWait {
		p.add("fragment-timeout", "%v is less than %v", c.FragmentTimeout, leastWait)
	}
	if c.FlushAfter < leastWait {
		p.add("flush-after", "%v is less than %v", c.FlushAfter, leastWait)
	}
}

// Live says whether the data come while the run goes on.
func (c Config) Live() bool {
	kind, _ := c.Source()
	return kind.Live
}

// inputs are the live sources, in the order of their ids; none, if the data are not live or the input cannot be.
func (c *Config) inputs() []source.Input {
	if !c.Live() {
		return nil
	}
	list, _ := source.Inputs(c.Input) // checkLive has looked
	return list
}

// liveNodes is how many folded nodes a run of live sources has unless it is told: as many as can have equal shares.
func (c *Config) liveNodes() int {
	n := len(c.inputs())
	for nodes := defaultNodes; nodes > 1; nodes-- {
		if n%nodes == 0 {
			return nodes
		}
	}
	return 1
}

// EventsWhole says whether a run with live sources builds no event that lacks a fragment.
func (c Config) EventsWhole() bool { return c.Live() && c.OnMissing == live.Stop.String() }

// resolveLive deals the sources out to the readout units and refuses what live data cannot be.
func (c *Config) resolveLive(p *problems) {
	list, err := source.Inputs(c.Input)
	switch {
	case err != nil:
		p.add("input", "%v", err)
		return
	case c.RUs < 1: // said already
	case len(list)%c.RUs != 0:
		p.add("input", "%d sources cannot be dealt out evenly over %d readout units: give each as many, contiguous in the "+
			"list, or another number of readout units", len(list), c.RUs)
	case c.Streams == 0:
		c.Streams = len(list) / c.RUs
	case c.Streams != len(list)/c.RUs:
		p.add("streams", "%d sources are %d for each of %d readout units, and not %d: leave out streams", len(list),
			len(list)/c.RUs, c.RUs, c.Streams)
	}
	if c.Loop {
		p.add("loop", "front-ends do not begin again: leave out loop")
	}
	if c.Rate > 0 {
		p.add("rate", "the front-ends decide how fast their data come: leave out rate")
	}
}

// liveSettings are what concerns live sources alone.
func (c *Config) liveSettings() (s source.LiveSettings, err error) {
	s = source.LiveSettings{
		Timeout:    c.FragmentTimeout,
		FlushAfter: c.FlushAfter,
		Slot:       int(c.SlotSize),
	}
	s.OnMissing, err = live.ParseOnMissing(c.OnMissing)
	return s, err
}
