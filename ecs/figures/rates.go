package figures

import "time"

// meterKey names a counter of a node; of the partition, with no node.
type meterKey struct{ node, counter string }

// meter makes a rate of a cumulative counter.
type meter struct {
	value uint64
	at    int64 // µs
	rate  float64
}

// minRateInterval is the least time a rate is measured over: a report at a change of state comes on the heels of the
// one before, and two counts of a phase more or less would be a peak.
const minRateInterval = 100 * time.Millisecond

// observe takes a reading and tells the rate per second, which stays as it was where the reading is not new.
func (m *meter) observe(value uint64, at int64) float64 {
	switch {
	case value < m.value || at < m.at: // whoever counts has begun anew, or its clock was set back
		*m = meter{value: value, at: at}
	case at-m.at >= minRateInterval.Microseconds():
		m.rate = float64(value-m.value) / (float64(at-m.at) / 1e6)
		m.value, m.at = value, at
	}
	return m.rate
}

// updateRate sees a counter.
func (b *Builder) updateRate(node, counter string, value uint64, at int64) float64 {
	key := meterKey{node, counter}
	m := b.meters[key]
	if m == nil {
		b.meters[key] = &meter{value: value, at: at}
		return 0
	}
	return m.observe(value, at)
}

// maxWindowReadings is how many readings the rate of a live source is of: two seconds of them, since front-ends give as
// few as one fragment in several reports.
const maxWindowReadings = 5

// windowMeter makes a rate of a cumulative counter over its last readings.
type windowMeter struct{ readings []reading }

type reading struct {
	value uint64
	at    int64 // µs
}

// observe takes a reading and tells the rate per second, 0 until there are two.
func (f *windowMeter) observe(value uint64, at int64) float64 {
	now := reading{value, at}
	last := len(f.readings) - 1
	switch {
	case last < 0 || value < f.readings[last].value || at < f.readings[last].at: // it begins, or begins anew
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

// maxClockOffsets is how many reports a clock offset is taken from: the one that was fastest on its way says most.
const maxClockOffsets = 16

// clockEstimator finds how far a node's clock is before the control's.
type clockEstimator struct {
	lastReportTime int64 // the report seen last, µs
	offsets        []int64
}

// observe takes when a report was made, by the node's clock, and when it came, by the control's, both in µs. The time
// on the way makes every offset too small, so the largest of the last ones is nearest.
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
