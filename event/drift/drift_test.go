package drift_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ringlet/event/drift"
)

// detector makes sizes that go together: how many particles cross it is the event's, the rest its own.
type detector struct {
	random *rand.Rand
	shared float64         // the share of a size's variance that is common
	truth  map[int]float64 // by trigger
}

func newDetector(shared float64) *detector {
	return &detector{random: rand.New(rand.NewPCG(1, 2)), shared: shared, truth: map[int]float64{}}
}

func (d *detector) size(trigger int) int32 {
	x, is := d.truth[trigger]
	if !is {
		x = d.random.NormFloat64()
		d.truth[trigger] = x
		delete(d.truth, trigger-5000)
	}
	return int32(1000 + 100*(math.Sqrt(d.shared)*x+math.Sqrt(1-d.shared)*d.random.NormFloat64()))
}

var names = []string{"trigger", "tof", "camera"}

// follow feeds a monitor with events of detectors; of says which trigger the fragment of a source and event is of,
// negative: there is none.
func follow(m *drift.Monitor, d *detector, from, to, sources int, of func(source, event int) int) {
	sizes := make([]int32, sources)
	for e := from; e < to; e++ {
		for s := range sizes {
			if sizes[s] = drift.Missing; of(s, e) >= 0 {
				sizes[s] = d.size(of(s, e))
			}
		}
		m.Add(uint64(e), sizes)
	}
}

// TestSlips: every kind of slip is told within 1,000 events, and where it was.
func TestSlips(t *testing.T) {
	const slip = 20_345
	for name, c := range map[string]struct {
		sources int
		of      func(source, event int) int
		want    int // behind
		who     string
	}{
		"one lost": {3, func(s, e int) int {
			if s == 1 && e >= slip {
				return e + 1
			}
			return e
		}, 1, "tof"},
		"one doubled": {3, func(s, e int) int {
			if s == 1 && e >= slip {
				return e - 1
			}
			return e
		}, -1, "tof"},
		"of the first": {3, func(s, e int) int {
			if s == 0 && e >= slip {
				return e + 1
			}
			return e
		}, 1, "trigger"},
		"of two sources": {2, func(s, e int) int {
			if s == 1 && e >= slip {
				return e + 3
			}
			return e
		}, 3, "tof"},
		"a clock jumps": {3, func(s, e int) int {
			if s == 2 && e >= slip {
				return e - 317
			}
			return e
		}, -317, "camera"},
		"with holes": {3, func(s, e int) int {
			if (e*7+s)%5 == 0 {
				return -1
			}
			if s == 2 && e >= slip {
				return e + 2
			}
			return e
		}, 2, "camera"},
	} {
		t.Run(name, func(t *testing.T) {
			d, m := newDetector(0.9), drift.New(names[:c.sources])
			follow(m, d, 500, slip, c.sources, c.of)
			if f := m.Findings(); len(f) > 0 || m.Slips() > 0 {
				t.Fatalf("before it: %v", f)
			}
			follow(m, d, slip, slip+1000, c.sources, c.of)
			f := m.Findings()
			if len(f) != 1 || f[0].Behind != c.want || f[0].Source != c.who || m.Slips() != 1 {
				t.Fatalf("%v, %d slips", f, m.Slips())
			}
			if off := int(f[0].Since) - slip; off < -40 || off > 40 {
				t.Errorf("%v: not at %d", f[0], slip)
			}
			if f[0].Reported >= slip+1000 || f[0].Correlation < 0.4 {
				t.Errorf("%+v", f[0])
			}
			follow(m, d, slip+1000, slip+40_000, c.sources, c.of)
			if again := m.Findings(); m.Slips() != 1 || again[0] != f[0] {
				t.Errorf("later: %v", again)
			}
		})
	}
}

// TestSlowDrift: a clock that runs fast loses one event after another, each is told.
func TestSlowDrift(t *testing.T) {
	d, m := newDetector(0.9), drift.New(names)
	follow(m, d, 0, 80_000, 3, func(s, e int) int {
		if s == 1 {
			return e + e/5000
		}
		return e
	})
	f := m.Findings()
	if len(f) != 15 || m.Slips() != 15 {
		t.Fatalf("%d: %v", m.Slips(), f)
	}
	for i, x := range f {
		at := 5000 * (i + 1)
		if off := int(x.Since) - at; x.Behind != i+1 || off < -40 || off > 40 || x.Reported > uint64(at+1000) {
			t.Errorf("%v", x)
		}
	}
}

// TestReturn: a source that is reset comes back, and what was is remembered.
func TestReturn(t *testing.T) {
	d, m := newDetector(0.9), drift.New(names)
	follow(m, d, 0, 30_000, 3, func(s, e int) int {
		if s == 1 && e >= 10_000 && e < 20_000 {
			return e + 1
		}
		return e
	})
	f := m.Findings()
	if len(f) != 1 || m.Slips() != 2 || f[0].Until < 19_960 || f[0].Until > 20_040 {
		t.Fatalf("%d: %v", m.Slips(), f)
	}
}

// TestApartFromTheBeginning: sources that never agreed at the same event are told, too.
func TestApartFromTheBeginning(t *testing.T) {
	d, m := newDetector(0.9), drift.New(names)
	follow(m, d, 0, 1500, 3, func(s, e int) int { return e + s/2 })
	want := "camera is one event behind trigger since they were first compared"
	if f := m.Findings(); len(f) != 1 || f[0].String() != want {
		t.Fatalf("%v", f)
	}
}

// TestNothingIsSaid where sizes give no evidence: 10^6 events of many kinds.
func TestNothingIsSaid(t *testing.T) {
	events := 1_000_000
	if testing.Short() {
		events = 100_000
	}
	r := rand.New(rand.NewPCG(3, 4))
	slow := 0.0
	for name, size := range map[string]func(s, e int) int32{
		"independent": func(_, _ int) int32 { return int32(r.IntN(1000)) },
		"constant":    func(s, _ int) int32 { return int32(100 + s) },
		"rare":        func(_, _ int) int32 { return int32(r.IntN(50) / 49) },
		"heavy tails": func(_, _ int) int32 { return int32(math.Min(1e9, math.Exp(3*r.NormFloat64()))) },
		"a common beam": func(s, _ int) int32 {
			if s == 0 {
				slow += r.NormFloat64() - 0.01*slow
			}
			return int32(1000 + 50*slow + 50*r.NormFloat64())
		},
		"by turns": func(_, e int) int32 { return int32(e % 2) },
		"large by turns, at equal intervals": func(s, e int) int32 {
			if e%100 == 5*s {
				return 100_000
			}
			return 1000
		},
		"one in ten":    func(_, e int) int32 { return int32(e % 10 / 9) },
		"mostly absent": func(_, _ int) int32 { return int32(r.IntN(20)/19*r.IntN(100)) - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			sources := []string{"a", "b", "c", "d"}
			m := drift.New(sources)
			sizes := make([]int32, len(sources))
			for e := range events {
				for s := range sizes {
					sizes[s] = size(s, e)
				}
				m.Add(uint64(e), sizes)
			}
			if f := m.Findings(); len(f) > 0 || m.Slips() > 0 || m.Compared() < uint64(events-128) {
				t.Errorf("%v, of %d events", f, m.Compared())
			}
		})
	}
}

// TestOrderAndSamples: events of several builder units come out of order, and only every second 1,024 are there.
func TestOrderAndSamples(t *testing.T) {
	const slip = 50_000
	d, m := newDetector(0.9), drift.New(names)
	type event struct {
		number int
		sizes  []int32
	}
	var late []event
	for e := range 60_000 {
		sizes := make([]int32, 3)
		for s := range sizes {
			sizes[s] = d.size(e)
			if s == 1 && e >= slip {
				sizes[s] = d.size(e + 1)
			}
		}
		switch {
		case e/1024%2 == 1:
		case e%100 < 50:
			m.Add(uint64(e), sizes)
		default:
			late = append(late, event{e, sizes})
		}
		if len(late) == 700 {
			for _, x := range slices.Backward(late) {
				m.Add(uint64(x.number), x.sizes)
			}
			late = nil
		}
	}
	m.Sweep()
	m.Sweep()
	if f := m.Findings(); len(f) != 1 || f[0].Behind != 1 || f[0].Since < slip-100 || f[0].Since > slip+1100 {
		t.Fatalf("%v", f)
	}
}

// TestNumbersInSteps: numbers that are all a multiple of something apart are compared as if they followed each other,
// and findings have the numbers themselves; one that is between them is no harm.
func TestNumbersInSteps(t *testing.T) {
	const slip, again, step, first = 20_345, 26_000, 100, 7
	d, m := newDetector(0.9), drift.New(names)
	sizes := make([]int32, len(names))
	for e := range 30_000 {
		for s := range sizes {
			sizes[s] = d.size(e)
			if s == 1 && e >= slip {
				sizes[s] = d.size(e + 1)
			}
			if s == 1 && e >= again {
				sizes[s] = d.size(e + 2)
			}
		}
		m.Add(uint64(first+step*e), sizes)
		if e == slip+1000 {
			f := m.Findings()
			if len(f) != 1 || f[0].Behind != 1 || f[0].Since < step*(slip-40) || f[0].Since > step*(slip+40) ||
				f[0].Reported > step*(slip+1000) {
				t.Fatalf("%+v", f)
			}
			m.Add(uint64(first+step*e+13), sizes)
		}
	}
	f := m.Findings()
	if m.Slips() != 2 || len(f) != 2 || f[1].Behind != 2 || f[1].Since < step*(again-40) || f[1].Since > step*(again+40) {
		t.Errorf("%d slips: %+v", m.Slips(), f)
	}
}

// TestStepsChange: a Monitor finds a slip after numbers have begun to grow by another step, and where they lie between
// those of the step before.
func TestStepsChange(t *testing.T) {
	const change, slip = 10_000, 20_000
	d, m := newDetector(0.9), drift.New(names)
	sizes := make([]int32, len(names))
	number := uint64(5)
	for e := range 25_000 {
		for s := range sizes {
			sizes[s] = d.size(e)
			if s == 1 && e >= slip {
				sizes[s] = d.size(e + 1)
			}
		}
		if number += 100; e >= change {
			number -= 60
		}
		m.Add(number, sizes)
	}
	if f := m.Findings(); len(f) != 1 || m.Slips() != 1 || f[0].Behind != 1 {
		t.Errorf("%d slips: %+v", m.Slips(), f)
	}
}

// TestManySources: memory and pairs are bounded, and a slip among forty sources is found.
func TestManySources(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprint("s", i))
	}
	d, m := newDetector(0.9), drift.New(many)
	follow(m, d, 0, 8000, 40, func(s, e int) int {
		if s == 17 && e >= 5000 {
			return e + 1
		}
		return e
	})
	if f := m.Findings(); len(f) != 1 || f[0].Source != "s17" || f[0].Behind != 1 {
		t.Fatalf("%v", f)
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{4, 22, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, sizes, r := drift.New(make([]string, n)), make([]int32, n), rand.New(rand.NewPCG(1, 2))
			for e := range b.N {
				for s := range sizes {
					sizes[s] = int32(r.Uint32() >> 20)
				}
				m.Add(uint64(e), sizes)
			}
		})
	}
}
