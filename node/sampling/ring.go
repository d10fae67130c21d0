package sampling

import (
	"fmt"
	"time"
)

// Bounds of a request.
const (
	MinInterval = time.Millisecond
	MaxInterval = 10 * time.Second
	// MaxSamples is how many samples are kept.
	MaxSamples = 2048
	// maxColumns bounds the memory of the samples: 4 MiB.
	maxColumns = 256
)

// An Error says what is wrong with a request.
type Error struct{ Field, Why string }

func (e *Error) Error() string { return e.Field + ": " + e.Why }

// CheckRequest says whether a request can be sampled. 0 samples mean no limit.
func CheckRequest(interval time.Duration, samples, columns int) error {
	switch {
	case interval < MinInterval || interval > MaxInterval:
		return &Error{"interval_us", fmt.Sprintf("%v is not from %v to %v", interval, MinInterval, MaxInterval)}
	case samples < 0 || samples > MaxSamples:
		return &Error{"samples", fmt.Sprintf("%d are more than %d: ask for 0, which goes on until the run is over", samples,
			MaxSamples)}
	case columns < 1 || columns > maxColumns:
		return &Error{"counters", fmt.Sprintf("they make %d columns, and 1 to %d can be sampled at a time: ask for fewer "+
			"counters, or for sums", columns, maxColumns)}
	}
	return nil
}

// Ring has the samples that were not drained yet.
type Ring struct {
	// immutable
	interval   int64 // ns
	maxSamples uint64
	columns    int

	nextDue        int64 // ns; 0 before the first
	times          []int64
	values         []uint64
	samplesDrained uint64 // samples that were drained or overwritten
	samplesTaken   uint64 // samples begun
	overwritten    uint64
	missedSamples  uint64
}

// New makes a ring for a request that CheckRequest has passed.
func New(interval time.Duration, samples, columns int) *Ring {
	capacity := MaxSamples
	if samples > 0 {
		capacity = samples
	}
	return &Ring{
		interval:   int64(interval),
		maxSamples: uint64(samples),
		columns:    columns,
		times:      make([]int64, capacity),
		values:     make([]uint64, capacity*columns),
	}
}

// NextDue is when the next sample is due, in ns by the clock of BeginSample's now; 0: at once.
func (r *Ring) NextDue() int64 { return r.nextDue }

// BeginSample returns the row for a sample's values, valid until the next call of a method; nil if no sample is due
// yet, or all are done. at is the time that Drain returns for the sample.
func (r *Ring) BeginSample(now, at int64) []uint64 {
	if r.Done() || r.nextDue != 0 && now < r.nextDue {
		return nil
	}
	if r.nextDue == 0 {
		r.nextDue = now
	}
	skipped := (now - r.nextDue) / r.interval
	r.missedSamples += uint64(skipped)
	r.nextDue += (skipped + 1) * r.interval
	if r.samplesTaken-r.samplesDrained == uint64(len(r.times)) {
		r.samplesDrained++
		r.overwritten++
	}
	i := int(r.samplesTaken % uint64(len(r.times)))
	r.samplesTaken++
	r.times[i] = at
	return r.values[i*r.columns : (i+1)*r.columns]
}

// Done tells that the requested number of samples was taken.
func (r *Ring) Done() bool { return r.maxSamples > 0 && r.samplesTaken >= r.maxSamples }

// Drain appends up to max samples that were not drained before, the oldest first: the time of each, and its values.
func (r *Ring) Drain(at []int64, values []uint64, max int) ([]int64, []uint64) {
	for ; r.samplesDrained < r.samplesTaken && max > 0; max-- {
		i := int(r.samplesDrained % uint64(len(r.times)))
		r.samplesDrained++
		at = append(at, r.times[i])
		values = append(values, r.values[i*r.columns:(i+1)*r.columns]...)
	}
	return at, values
}

// Lost is how many samples were overwritten before they were drained, and how many were not taken when they were due.
func (r *Ring) Lost() (overwritten, late uint64) { return r.overwritten, r.missedSamples }
