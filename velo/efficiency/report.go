package efficiency

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/velo/frontend"
	"ringlet/velo/vertex"
)

// Report is the result of a measurement.
type Report struct {
	Config Config
	Began  time.Time

	NoisyData     Data // what the filter saw
	NoiselessData Data // the same collisions without noise

	// The accepted share of events with a clean B decay, with a visible one, with any B decay, and without.
	Clean, Visible, Displaced, OtherEvents Share

	PrimariesFound       Share // collisions found
	PrimaryX             Deviations
	PrimaryZ             Deviations
	SecondaryZ           Deviations // along the beam, of secondary vertices at a B decay
	MisplacedSecondaries uint64     // accepted events with B decays whose secondary vertex is at none of them

	ByFlight [flightBins]Share // events with a visible decay, by its flight

	stepTimes         [vertex.StepCount + 1]time.Duration
	times             []time.Duration // of each event
	usedProcessorTime time.Duration
}

// Share is a part of some events.
type Share struct{ Part, All uint64 }

func (s *Share) count(part bool) {
	s.All++
	if part {
		s.Part++
	}
}

// fraction is the share, from 0 to 1, and its standard deviation.
func (s Share) fraction() (share, sigma float64) {
	if s.All == 0 {
		return math.NaN(), math.NaN()
	}
	n := float64(s.All)
	p := float64(s.Part) / n
	return p, math.Sqrt(p * (1 - p) / n)
}

func (s Share) String() string {
	p, sigma := s.fraction()
	return fmt.Sprintf("%.2f ± %.2f %% (%d of %d)", 100*p, 100*sigma, s.Part, s.All)
}

// Deviations are the distances of found vertices from the true ones, in µm.
type Deviations struct{ micrometres []float64 }

func (d *Deviations) add(mm float64) { d.micrometres = append(d.micrometres, 1000*mm) }

// centralSigma is half the width of the interval with the middle 68 % of them: for a Gaussian, the standard deviation.
func (d *Deviations) centralSigma() float64 {
	if len(d.micrometres) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(d.micrometres))
	at := func(share float64) float64 { return sorted[int(share*float64(len(sorted)-1))] }
	return (at(0.841) - at(0.159)) / 2
}

// Report.ByFlight[i] has flights from i to i + 1 times flightBinWidth.
const (
	flightBins     = 12
	flightBinWidth = 1.0 // mm
)

// A found vertex counts as a true one up to these distances, mm.
const (
	maxPrimaryDistance   = 1.0
	maxSecondaryDistance = 3.0
)

// addEvent counts the results of one event.
func (r *Report) addEvent(t *frontend.Truth, list []decay, found *vertex.Result, accepted bool) {
	collision := &t.Vertices[0]
	primary := false
	for _, p := range found.Primaries {
		if math.Abs(p.Z-collision.Z) > maxPrimaryDistance {
			continue
		}
		primary = true
		r.PrimaryX.add(p.X - collision.X)
		r.PrimaryZ.add(p.Z - collision.Z)
		break
	}
	r.PrimariesFound.count(primary)
	if !t.Displaced {
		r.OtherEvents.count(accepted)
		return
	}
	r.Displaced.count(accepted)
	if slices.ContainsFunc(list, func(d decay) bool { return d.clean }) {
		r.Clean.count(accepted)
	}
	if i := slices.IndexFunc(list, func(d decay) bool { return d.visible }); i >= 0 {
		r.Visible.count(accepted)
		if bin := int(list[i].flight / flightBinWidth); bin < flightBins {
			r.ByFlight[bin].count(accepted)
		}
	}
	if accepted {
		r.addSecondary(list, found.Secondary.Z)
	}
}

func (r *Report) addSecondary(list []decay, z float64) {
	for i := range list {
		if math.Abs(list[i].vertex.Z-z) < maxSecondaryDistance {
			r.SecondaryZ.add(z - list[i].vertex.Z)
			return
		}
	}
	r.MisplacedSecondaries++
}

func (r *Report) sortTimes() { slices.Sort(r.times) }

// meanEventTime is the processor time of one event.
func (r *Report) meanEventTime() time.Duration {
	return r.usedProcessorTime / time.Duration(max(1, len(r.times)))
}

// step names, in order.
var stepNames = [vertex.StepCount + 1]string{
	"fragments to hits", "histogram of pairs", "tracks in r and z", "primary vertex", "other tracks", "tracks in space",
	"secondary vertex",
}

// Print writes the report as text.
func (r *Report) Print(w io.Writer) error {
	say := func(name, format string, args ...any) string {
		return fmt.Sprintf("%-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	text := say("events", "%d simulated, seed %d", len(r.times), r.Config.Seed) +
		say("clusters", "%.0f of an event, %.1f of a board, at most %d; without noise %.0f and %.1f",
			r.NoisyData.ClustersPerEvent.mean(), r.NoisyData.ClustersPerBoard.mean(), r.NoisyData.ClustersPerBoard.largest,
			r.NoiselessData.ClustersPerEvent.mean(), r.NoiselessData.ClustersPerBoard.mean()) +
		say("strips in a cluster", "%.2f %%; without noise %.2f %%", 100*r.NoisyData.occupancy(),
			100*r.NoiselessData.occupancy()) +
		say("bytes of an event", "%.0f; without noise %.0f", r.NoisyData.BytesPerEvent.mean(),
			r.NoiselessData.BytesPerEvent.mean()) +
		say("clean decays", "accepted: %v", r.Clean) +
		say("visible decays", "accepted: %v", r.Visible) +
		say("all B events", "accepted: %v", r.Displaced) +
		say("others", "accepted: %v", r.OtherEvents) +
		say("collisions found", "%v", r.PrimariesFound) +
		say("primary vertex", "σ %.0f µm along the beam, %.0f µm across", r.PrimaryZ.centralSigma(),
			r.PrimaryX.centralSigma()) +
		say("secondary vertex", "σ %.0f µm along the beam; %d accepted B events have it at no B decay",
			r.SecondaryZ.centralSigma(), r.MisplacedSecondaries)
	for i, name := range stepNames {
		text += say(name, "%.1f µs", r.step(i))
	}
	text += say("one event", "%v of a processor on average; by the clock half within %v, 99 %% within %v, all within %v",
		r.meanEventTime(), r.quantile(0.5), r.quantile(0.99), r.quantile(1))
	_, err := io.WriteString(w, text)
	return err
}

// step is the mean processor time of step i for one event, in µs: the step's share of the wall-clock time of all steps,
// times the mean processor time of an event.
func (r *Report) step(i int) float64 {
	var all time.Duration
	for _, t := range r.stepTimes {
		all += t
	}
	return float64(r.meanEventTime()) / 1000 * float64(r.stepTimes[i]) / float64(max(1, all))
}

func (r *Report) quantile(share float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[int(share*float64(len(r.times)-1))].Round(100 * time.Nanosecond)
}

// processorTime is the processor time that this thread has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
