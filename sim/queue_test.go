package sim_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"

	"ringlet/sim"
)

// server is a queue with one server: M/M/1 or M/D/1, whose mean waiting times have formulas.
type server struct {
	s                 *sim.Sim
	rng               *sim.RandomStream
	between, service  sim.Time
	exponential       bool
	came              []sim.Time // of those that wait or are served
	arrived, departed int64
	inside, waiting   sim.Level
	wait              sim.Histogram
	trace             *sim.Trace
	track             sim.Track
}

type (
	arrival   server
	departure server
)

func (m *arrival) Handle(int64, int64) {
	m.s.ScheduleAfter(m.rng.Exp(m.between), m, 0, 0)
	m.arrived++
	m.inside.Add(m.s.Now(), 1)
	m.came = append(m.came, m.s.Now())
	if len(m.came) == 1 {
		(*server)(m).serve()
		return
	}
	m.waiting.Add(m.s.Now(), 1)
}

func (m *server) serve() {
	m.wait.Add(int64(m.s.Now() - m.came[0]))
	d := m.service
	if m.exponential {
		d = m.rng.Exp(m.service)
	}
	m.trace.Span(m.track, "service", m.s.Now(), m.s.Now()+d, m.departed)
	m.s.ScheduleAfter(d, (*departure)(m), 0, 0)
}

func (m *departure) Handle(int64, int64) {
	m.departed++
	m.inside.Add(m.s.Now(), -1)
	m.came = append(m.came[:0], m.came[1:]...)
	if len(m.came) > 0 {
		m.waiting.Add(m.s.Now(), -1)
		(*server)(m).serve()
	}
}

func run(seed uint64, load float64, exponential bool, until sim.Time, t *sim.Trace) *server {
	s := sim.New(seed)
	m := &server{
		s:           s,
		rng:         s.RandomStream("server"),
		between:     sim.Time(float64(sim.Microsecond) / load),
		service:     sim.Microsecond,
		exponential: exponential,
		trace:       t,
		track:       t.Track("server"),
	}
	s.ScheduleAt(0, (*arrival)(m), 0, 0)
	s.Run(context.Background(), sim.Limits{Until: until})
	return m
}

// TestWaitingTimes: M/M/1 waits ρ/(1−ρ) services, M/D/1 half of that; Little's law and conservation hold.
func TestWaitingTimes(t *testing.T) {
	const until = sim.Second
	for _, load := range []float64{0.3, 0.6, 0.8} {
		for exponential, half := range map[bool]float64{true: 1, false: 0.5} {
			m := run(7, load, exponential, until, nil)
			want := half * load / (1 - load)
			if got := m.wait.Mean() / float64(sim.Microsecond); math.Abs(got/want-1) > 0.03 {
				t.Errorf("load %v, exponential %v: mean wait %.4f services, want %.4f", load, exponential, got, want)
			}
			// Little: mean number waiting = rate × mean wait.
			little := sim.PerSecond(m.wait.Count(), until) * m.wait.Mean() / float64(sim.Second)
			if got := m.waiting.Mean(until); math.Abs(got/little-1) > 0.001 {
				t.Errorf("load %v: %.5f wait, but rate × wait is %.5f", load, got, little)
			}
			if m.arrived != m.departed+m.inside.Value() || int(m.inside.Value()) != len(m.came) {
				t.Errorf("%d came, %d left, %d inside", m.arrived, m.departed, m.inside.Value())
			}
		}
	}
}

// TestSameSeedSameBytes: a trace and all figures of two runs of a seed are the same bytes, for 1,000 seeds; of another
// seed they are not.
func TestSameSeedSameBytes(t *testing.T) {
	bytesOf := func(seed uint64) []byte {
		var out bytes.Buffer
		trace := sim.NewTrace(&out, 100_000)
		m := run(seed, 0.7, true, 100*sim.Microsecond, trace)
		if dropped, err := trace.Close(); dropped != 0 || err != nil {
			t.Fatal(dropped, err)
		}
		fmt.Fprintln(&out, m.wait.Mean(), m.wait.Deviation(), m.inside.Mean(m.s.Now()), m.s.Executed())
		return out.Bytes()
	}
	for seed := range uint64(1000) {
		first := bytesOf(seed)
		if !bytes.Equal(first, bytesOf(seed)) {
			t.Errorf("seed %d gave other bytes", seed)
		}
		if bytes.Equal(first, bytesOf(seed+1)) {
			t.Errorf("seed %d gave the bytes of seed %d", seed+1, seed)
		}
	}
}
