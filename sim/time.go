package sim

import (
	"math"
	"strconv"
	"time"
)

// Time is an instant, or a duration, in picoseconds since the beginning of the simulation.
type Time int64

// The units of time. Forever is later than every event.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
	Forever     Time = math.MaxInt64
)

// FromDuration converts a time.Duration.
func FromDuration(d time.Duration) Time { return Time(d) * Nanosecond }

// Seconds is t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// Micros is t in microseconds.
func (t Time) Micros() float64 { return float64(t) / float64(Microsecond) }

// PerSecond is the rate of n things in t.
func PerSecond(n uint64, t Time) float64 { return float64(n) / t.Seconds() }

// Period is the time between events at a rate per second, to the nearest picosecond.
func Period(rate float64) Time { return Time(math.Round(float64(Second) / rate)) }

func (t Time) String() string {
	units := []struct {
		name string
		size Time
	}{{"s", Second}, {"ms", Millisecond}, {"µs", Microsecond}, {"ns", Nanosecond}}
	for _, u := range units {
		if t >= u.size || t <= -u.size {
			return strconv.FormatFloat(float64(t)/float64(u.size), 'g', 6, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(int64(t), 10) + " ps"
}
