package sim

import (
	"context"
	"fmt"
)

// A Handler is called at the time of an event, with the two integers it was scheduled with.
type Handler interface {
	Handle(a, b int64)
}

// Func makes a handler from a function. Make it once, not for each event: a function that captures allocates.
type Func func(a, b int64)

// Handle calls the function.
func (f Func) Handle(a, b int64) { f(a, b) }

// An EndReason says why Run returned.
type EndReason int

// The ends of a Run.
const (
	Idle        EndReason = iota // no event is pending
	TimeLimit                    // the next event is later than Limits.Until
	EventLimit                   // Limits.MaxEvents have run
	Stopped                      // a handler called Stop
	Interrupted                  // the context ended
)

func (e EndReason) String() string {
	return [...]string{"no event is pending", "time reached", "events reached", "stopped by the model", "interrupted"}[e]
}

// Limits end a Run. The zero value runs until no event is pending.
type Limits struct {
	Until      Time                            // events up to this time run; 0: no limit
	MaxEvents  uint64                          // how many events this Run executes at most; 0: no limit
	OnProgress func(now Time, executed uint64) // called every eventsBetweenChecks events; may be nil
}

// eventsBetweenChecks is the number of events after which Run checks its context and reports progress: some 10 ms, so
// that Ctrl-C works at once and the check costs nothing.
const eventsBetweenChecks = 1 << 16

// slot holds the call of a pending event.
type slot struct {
	h    Handler
	a, b int64
}

// Sim is a simulation: the clock, the pending events and the seed. It belongs to one goroutine.
type Sim struct {
	seed               uint64
	now                Time
	seq                uint64
	executed           uint64
	pending            heap
	slots              []slot
	free               []uint32
	stopRequested      bool
	watchedSeries      []*Series
	nextSampleAt       Time // when the next sample is due
	instrumentsEnabled bool
	trace              *Trace
	histograms         []NamedHistogram
}

// NamedHistogram is a histogram of an observed simulation.
type NamedHistogram struct {
	Name string
	*Histogram
}

// New makes an empty simulation at time 0.
func New(seed uint64) *Sim { return &Sim{seed: seed, nextSampleAt: Forever} }

// EnableInstruments has components made from now on Watch what waits in them, register their histograms (AddHistogram),
// and trace events to t if it is not nil.
func (s *Sim) EnableInstruments(t *Trace) { s.instrumentsEnabled, s.trace = true, t }

// InstrumentsEnabled says whether the simulation is observed.
func (s *Sim) InstrumentsEnabled() bool { return s.instrumentsEnabled }

// Trace is the trace of the simulation, or nil.
func (s *Sim) Trace() *Trace { return s.trace }

// AddHistogram registers a histogram by name, if the simulation is observed.
func (s *Sim) AddHistogram(name string, h *Histogram) {
	if s.instrumentsEnabled {
		s.histograms = append(s.histograms, NamedHistogram{name, h})
	}
}

// Histograms are the registered histograms, in the order of registration.
func (s *Sim) Histograms() []NamedHistogram { return s.histograms }

// WatchedSeries are the curves, in the order of Watch.
func (s *Sim) WatchedSeries() []*Series { return s.watchedSeries }

// Now is the time of the event that is running, or at which Run ended.
func (s *Sim) Now() Time { return s.now }

// Executed is the number of events that have run.
func (s *Sim) Executed() uint64 { return s.executed }

// Stop ends Run after the event that is running.
func (s *Sim) Stop() { s.stopRequested = true }

// ScheduleAfter schedules h for d from now.
func (s *Sim) ScheduleAfter(d Time, h Handler, a, b int64) { s.ScheduleAt(s.now+d, h, a, b) }

// ScheduleAt schedules h for time t, after all events that have been scheduled for t. It panics if t has passed.
func (s *Sim) ScheduleAt(t Time, h Handler, a, b int64) {
	if t < s.now {
		panic(fmt.Sprintf("sim: %T is scheduled for %v, which is before now, %v", h, t, s.now))
	}
	var i uint32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i = uint32(len(s.slots))
		s.slots = append(s.slots, slot{})
	}
	s.slots[i] = slot{h, a, b}
	if s.seq++; i>>slotBits != 0 || s.seq>>(64-slotBits) != 0 {
		panic(fmt.Sprintf("sim: event %d, with %d pending, is more than the engine can name", s.seq, i))
	}
	s.pending.push(entry{dueAt: t, key: s.seq<<slotBits | uint64(i)})
}

// Run runs events in their order to a limit, and returns which. At TimeLimit the clock is Limits.Until.
func (s *Sim) Run(ctx context.Context, l Limits) EndReason {
	until, last := l.Until, s.executed+l.MaxEvents
	if until == 0 {
		until = Forever
	}
	s.stopRequested = false
	for check := s.executed; ; {
		if s.executed >= check {
			if check = s.executed + eventsBetweenChecks; l.OnProgress != nil {
				l.OnProgress(s.now, s.executed)
			}
			if ctx.Err() != nil {
				return Interrupted
			}
		}
		switch {
		case s.stopRequested:
			return Stopped
		case l.MaxEvents > 0 && s.executed >= last:
			return EventLimit
		case len(s.pending) == 0:
			return Idle
		case s.pending[0].dueAt > until:
			s.sampleUntil(until + 1)
			s.now = max(s.now, until)
			return TimeLimit
		}
		s.step()
	}
}

// step runs the next event.
func (s *Sim) step() {
	e := s.pending.pop()
	ev := s.slots[e.slot()]
	s.slots[e.slot()] = slot{}
	s.free = append(s.free, e.slot())
	s.sampleUntil(e.dueAt)
	s.now = e.dueAt
	s.executed++
	ev.h.Handle(ev.a, ev.b)
}

// sampleUntil takes the samples that are due before time t.
func (s *Sim) sampleUntil(t Time) {
	for s.nextSampleAt < t {
		at := s.nextSampleAt
		s.nextSampleAt = Forever
		for _, w := range s.watchedSeries {
			if w.due == at {
				w.sample(at)
			}
			s.nextSampleAt = min(s.nextSampleAt, w.due)
		}
	}
}
