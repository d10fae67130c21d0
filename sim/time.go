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

// epoch is instant 0 for cores that take a time.Time.
var epoch = time.Unix(0, 0).UTC()

// Of converts a duration of the clock's world.
func Of(d time.Duration) Time { return Time(d) * Nanosecond }

// Duration is t in whole nanoseconds, rounded down.
func (t Time) Duration() time.Duration { return time.Duration(t / Nanosecond) }

// Wall is the instant as cores know it: t after 1 January 1970.
func (t Time) Wall() time.Time { return epoch.Add(t.Duration()) }

// Seconds is t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// Micros is t in microseconds.
func (t Time) Micros() float64 { return float64(t) / float64(Microsecond) }

// Nanos is the time of x nanoseconds, to the nearest picosecond.
func Nanos(x float64) Time { return Time(math.Round(x * float64(Nanosecond))) }

// PerSecond is the rate of n things in t.
func PerSecond(n uint64, t Time) float64 { return float64(n) / t.Seconds() }

// Period is the time between things that come at a rate per second, to the nearest picosecond.
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
