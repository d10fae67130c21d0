package figures

import "time"

// meterKey names a counter of a node; node is empty for one of the partition.
type meterKey struct{ node, counter string }

// meter measures the rate of a cumulative counter.
type meter struct {
	value uint64
	at    int64 // µs
	rate  float64
}

// minRateInterval is the least time over which a rate is measured: a report at a change of state may come shortly after
// the one before, and few counts in a short time would look like a peak.
const minRateInterval = 100 * time.Millisecond

// observe takes a reading and returns the rate per second, which remains if the reading comes before minRateInterval.
func (m *meter) observe(value uint64, at int64) float64 {
	switch {
	case value < m.value || at < m.at: // the node was restarted, or its clock was set back
		*m = meter{value: value, at: at}
	case at-m.at >= minRateInterval.Microseconds():
		m.rate = float64(value-m.value) / (float64(at-m.at) / 1e6)
		m.value, m.at = value, at
	}
	return m.rate
}

// updateRate takes a reading of a counter and returns its rate per second.
func (b *Builder) updateRate(node, counter string, value uint64, at int64) float64 {
	key := meterKey{node, counter}
	m := b.meters[key]
	if m == nil {
		b.meters[key] = &meter{value: value, at: at}
		return 0
	}
	return m.observe(value, at)
}

// maxWindowReadings is the number of readings, over 2 s, for the rate of a live source: a slow front-end may send one
// fragment in several reports.
const maxWindowReadings = 5

// windowMeter measures the rate of a cumulative counter over its last readings.
type windowMeter struct{ readings []reading }

type reading struct {
	value uint64
	at    int64 // µs
}

// observe takes a reading and returns the rate per second; 0 until there are two readings.
func (f *windowMeter) observe(value uint64, at int64) float64 {
	now := reading{value, at}
	last := len(f.readings) - 1
	switch {
	case last < 0 || value < f.readings[last].value || at < f.readings[last].at: // first reading, or after a restart
		f.readings = append(f.readings[:0], now)
	case at-f.readings[last].at >= minRateInterval.Microseconds():
		f.readings = append(f.readings, now)
		f.readings = f.readings[max(0, len(f.readings)-maxWindowReadings):]
	}
	first, newest := f.readings[0], f.readings[len(f.readings)-1]
	if newest.at == first.at {
		return 0
	}
	return float64(newest.value-first.value) / (float64(newest.at-first.at) / 1e6)
}

// maxClockOffsets is the number of reports from which a clock offset is estimated.
const maxClockOffsets = 16

// clockEstimator estimates how far a node's clock is ahead of the control's.
type clockEstimator struct {
	lastReportTime int64 // of the last report, µs by the node's clock
	offsets        []int64
}

// observe takes the time when a report was made, by the node's clock, and when it came, by the control's, both in µs,
// and returns the offset in µs. The time on the way makes every offset too small, so that the largest of the last ones
// is the best estimate.
func (c *clockEstimator) observe(made, came int64) int64 {
	if made == 0 {
		return 0
	}
	if made != c.lastReportTime {
		c.lastReportTime = made
		c.offsets = append(c.offsets, made-came)
		c.offsets = c.offsets[max(0, len(c.offsets)-maxClockOffsets):]
	}
	best := c.offsets[0]
	for _, o := range c.offsets {
		best = max(best, o)
	}
	return best
}

func (b *Builder) clockEstimator(node string) *clockEstimator {
	if b.clockEstimators[node] == nil {
		b.clockEstimators[node] = &clockEstimator{}
	}
	return b.clockEstimators[node]
}
