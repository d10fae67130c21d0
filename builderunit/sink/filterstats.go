package sink

import (
	"errors"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/filter"
)

// errFilterClosed says that a MEP comes after Finish or Abort.
var errFilterClosed = errors.New("the filter is closed")

// FilterStats are the counters of a FilterSink.
type FilterStats struct {
	AcceptedEvents   uint64        `count:"filter_accepted" help:"events that the filter accepted"`
	RejectedEvents   uint64        `count:"filter_rejected" help:"events that the filter rejected"`
	TimedOutEvents   uint64        `count:"filter_timed_out" help:"events that passed since the filter did not answer in time"`
	FailedEvents     uint64        `count:"filter_failed" help:"events that passed since the filter could not judge them"`
	RegionRejected   uint64        `count:"filter_rejected_region" help:"rejected events that have no rest here: --roi, judged by the filter"`
	RejectedKept     uint64        `count:"filter_carried" help:"rejected events that are kept, since another one of their MEP is"`
	JudgeTime        time.Duration `count:"filter_us" help:"time in the filter, of all workers"`
	LongestJudgeTime time.Duration `count:"filter_longest_us" kind:"max" help:"longest time in the filter for one event"`
	WaitTime         time.Duration `count:"filter_held_us" help:"time that built MEPs waited for a place before the filter"`
	StuckWorkers     int           `count:"filter_stuck" kind:"level" help:"workers of the filter beyond their deadline now"`
}

// addDecided counts events that have a decision.
func (s *FilterStats) addDecided(d filter.Decision, events int) {
	switch n := uint64(events); d {
	case filter.Accepted:
		s.AcceptedEvents += n
	case filter.Rejected:
		s.RejectedEvents += n
	case filter.TimedOut:
		s.TimedOutEvents += n
	default:
		s.FailedEvents += n
	}
}

// decidedEvents returns how many events have a decision.
func (s *FilterStats) decidedEvents() uint64 {
	return s.AcceptedEvents + s.RejectedEvents + s.TimedOutEvents + s.FailedEvents
}

// eventTimes are the times of the events that one worker's filter has judged. Each worker has its own, so that workers
// do not wait for each other.
type eventTimes struct {
	mu                    sync.Mutex     // guards the rest
	waitTimes, judgeTimes *hdr.Histogram // µs
	total, longest        time.Duration  // in the filter
}

// maxRecordedTime is the longest time that the histograms distinguish, in µs.
const maxRecordedTime = int64(time.Minute / time.Microsecond)

// record records the times of one event: from its last byte until a filter had it, and in the filter.
func (t *eventTimes) record(waited, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.waitTimes.RecordValue(min(max(0, waited.Microseconds()), maxRecordedTime))
	_ = t.judgeTimes.RecordValue(min(max(0, d.Microseconds()), maxRecordedTime))
	t.total, t.longest = t.total+d, max(t.longest, d)
}

// addTo adds the time in the filter to counters.
func (t *eventTimes) addTo(s *FilterStats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.JudgeTime, s.LongestJudgeTime = s.JudgeTime+t.total, max(s.LongestJudgeTime, t.longest)
}

// mergeInto adds the times to two histograms.
func (t *eventTimes) mergeInto(waits, in *hdr.Histogram) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waits.Merge(t.waitTimes)
	in.Merge(t.judgeTimes)
}

// newTimeHistogram returns an empty histogram of times in µs.
func newTimeHistogram() *hdr.Histogram { return hdr.New(1, maxRecordedTime, 3) }

// Histograms returns two histograms in µs: how long events waited for the filter after their last byte, and how long
// they were in it. An event from which a filter never returned is in neither. Times of external filters are not known:
// nil.
func (f *FilterSink) Histograms() (waits, in *hdr.Histogram) {
	if f.cfg.External != nil {
		return nil, nil
	}
	waits, in = newTimeHistogram(), newTimeHistogram()
	for i := range f.workers {
		f.workers[i].times.mergeInto(waits, in)
	}
	return waits, in
}

// Stats reads the counters, from any goroutine.
func (f *FilterSink) Stats() FilterStats {
	now := f.count.read()
	for i := range f.workers {
		f.workers[i].times.addTo(&now)
	}
	if f.cfg.External != nil {
		now.JudgeTime, now.LongestJudgeTime = f.cfg.External.JudgeTimes()
	}
	return now
}
