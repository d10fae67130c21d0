package decision

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/filter"
)

func newCore(t testing.TB, cfg Config) *core {
	t.Helper()
	c, err := makeCore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func accept(event uint64) *Result { return &Result{Event: event, Decision: filter.Accepted} }

// Results out of order come out in order, at once when the pointer can go on.
func TestOrder(t *testing.T) {
	c := newCore(t, Config{BuilderCount: 1})
	out := make([]Result, 0, 16)
	for _, e := range []uint64{2, 1, 4} {
		if f := c.accept(accept(e), 0); f != FateUsed {
			t.Fatal(f)
		}
	}
	if out = c.step(0, out); len(out) != 0 {
		t.Fatal(out)
	}
	c.accept(accept(0), 5000)
	out = c.step(5000, out)
	if len(out) != 3 || out[2].Event != 2 || out[0].TookMicros != 5 {
		t.Fatal(out)
	}
	due, ok := c.nextTimeout()
	if !ok || due < int64(DefaultTimeout) || due > int64(DefaultTimeout+DefaultTimeout/1000) {
		t.Fatal(due, ok)
	}
	if out = c.step(due-1, out[:0]); len(out) != 0 {
		t.Fatal(out)
	}
	out = c.step(due, out)
	if len(out) != 2 || out[0].Decision != filter.TimedOut || out[0].Builder != noBuilder || out[1].Event != 4 {
		t.Fatal(out)
	}
	if f := c.accept(accept(3), due); f != FateLate {
		t.Fatal(f)
	}
	if _, ok := c.nextTimeout(); ok {
		t.Fatal("nothing is triggered, and something is due")
	}
}

// Where the time of a decision went: building, what the builder unit says it took, and waiting for those before it.
func TestLatencyBreakdown(t *testing.T) {
	var got []LatencyBreakdown
	c := newCore(t, Config{BuilderCount: 1, OnDecision: func(p LatencyBreakdown) { got = append(got, p) }})
	const us = 1000
	c.markTriggered(3, 100*us)
	c.accept(&Result{Event: 1, Decision: filter.Accepted, TookMicros: 30}, 200*us)
	c.accept(&Result{Event: 2, Decision: filter.Accepted, TookMicros: MaxTookMicros}, 210*us)
	// the trigger was known after its last byte
	c.accept(&Result{Event: 0, Decision: filter.Rejected, TookMicros: 400}, 250*us)
	c.accept(&Result{Event: 5, Decision: filter.Rejected}, 250*us)
	c.step(300*us, make([]Result, 0, 8))
	c.step(int64(time.Second), make([]Result, 0, 8))
	want := []LatencyBreakdown{
		{Total: 200 * us, SplitKnown: true, Building: 0, Ordering: 50 * us},
		{Total: 200 * us, SplitKnown: true, Building: 70 * us, Ordering: 100 * us},
		{Total: 200 * us},
		{Total: int64(time.Second) - 250*us},
		{Total: int64(time.Second) - 250*us},
		{Total: int64(time.Second) - 250*us, SplitKnown: true, Ordering: int64(time.Second) - 250*us},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if n := c.snapshot().Unsplit; n != 1 {
		t.Errorf("of %d results the parts are counted as unknown, it was one", n)
	}
}

// What is lost together times out together: the time-out of each counts from when it was triggered, and not from when
// the pointer reaches it.
func TestManyLost(t *testing.T) {
	c := newCore(t, Config{BuilderCount: 1})
	c.markTriggered(1000, 0)
	out := c.step(int64(2*time.Millisecond), make([]Result, 0, 2000))
	if len(out) != 1000 || c.snapshot().TimedOut != 1000 {
		t.Fatal(len(out), c.snapshot())
	}
}

// More events than the unit is deep cannot wait: the oldest give way.
func TestOverrun(t *testing.T) {
	c := newCore(t, Config{BuilderCount: 1, MaxPending: 10})
	c.markTriggered(10, 0)
	if out := c.step(0, make([]Result, 0, 20)); len(out) != 0 {
		t.Fatal(out)
	}
	c.markTriggered(13, 0)
	out := c.step(0, make([]Result, 0, 20))
	if len(out) != 3 || out[2].Event != 2 || c.snapshot().Overrun != 3 {
		t.Fatal(out, c.snapshot())
	}
}

// What cannot be changes nothing, and is counted by what is wrong with it.
func TestImpossible(t *testing.T) {
	c := newCore(t, Config{BuilderCount: 2, MaxPending: 10, Epoch: 3, FirstEvent: 100})
	good := Result{Event: 100, Builder: 1, Decision: filter.Rejected, Epoch: 3}
	for _, tt := range []struct {
		change func(*Result)
		want   Fate
	}{
		{func(r *Result) { r.Epoch = 2 }, FateOldEpoch},
		{func(r *Result) { r.Builder = 2 }, FateUnknownBuilder},
		{func(r *Result) { r.Builder = noBuilder }, FateUnknownBuilder},
		{func(r *Result) { r.Decision = 0 }, FateNoVerdict},
		{func(r *Result) { r.Decision = 9 }, FateNoVerdict},
		{func(r *Result) { r.Event = 99 }, FateLate},
		{func(r *Result) { r.Event = 110 }, FateAhead},
		{func(r *Result) { r.Event = maxEventNumber - 1 }, FateAhead},
		{func(r *Result) {}, FateUsed},
		{func(r *Result) { r.Decision = filter.Accepted }, FateDoubled},
	} {
		r := good
		tt.change(&r)
		if got := c.accept(&r, 0); got != tt.want {
			t.Errorf("%v: %d, not %d", &r, got, tt.want)
		}
	}
	out := c.step(0, make([]Result, 0, 5))
	if len(out) != 1 || out[0].Decision != filter.Rejected {
		t.Fatal(out)
	}
	if got := c.snapshot().Results; got != [numberOfFates]uint64{1, 1, 1, 2, 1, 2, 2} {
		t.Error(got)
	}
}

// A MEP that is shorter than others leaves no decisions behind it.
func TestVoid(t *testing.T) {
	c := newCore(t, Config{BuilderCount: 1})
	c.markTriggered(4, 0)
	for e, d := range []filter.Decision{filter.Accepted, Void, Void, filter.Failed} {
		c.accept(&Result{Event: uint64(e), Decision: d}, 0)
	}
	out := c.step(0, make([]Result, 0, 8))
	if s := c.snapshot(); len(out) != 2 || out[1].Event != 3 || s.Void != 2 || s.Decisions()+s.Void != s.Triggered {
		t.Fatal(out, s)
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{
		{}, {BuilderCount: 1 << 16}, {BuilderCount: 1, MaxPending: -1}, {BuilderCount: 1, Timeout: 1}, {BuilderCount: 1,
			FirstEvent: maxEventNumber},
	} {
		if _, err := makeCore(cfg); err == nil {
			t.Errorf("%+v", cfg)
		}
	}
}

// model is what a core promises, said in the simplest way.
type model struct {
	depth       int
	next, below uint64
	results     map[uint64]Result
	since       map[uint64]int64
}

func (m *model) triggered(below uint64, now int64) {
	for ; m.below < below; m.below++ {
		m.since[m.below] = now
	}
}

func (m *model) use(r Result, now int64) Fate {
	_, there := m.results[r.Event]
	switch {
	case r.Epoch != 1:
		return FateOldEpoch
	case r.Builder > 2:
		return FateUnknownBuilder
	case r.Decision == 0 || r.Decision > 4:
		return FateNoVerdict
	case r.Event < m.next:
		return FateLate
	case r.Event >= m.next+uint64(m.depth):
		return FateAhead
	case there:
		return FateDoubled
	}
	m.results[r.Event] = r
	m.triggered(r.Event+1, now)
	return FateUsed
}

// decided holds a decision against the model, at a time.
func (m *model) decided(t *rapid.T, d Result, now int64, timeout time.Duration, finished bool) {
	r, there := m.results[d.Event]
	waited := now - m.since[d.Event]
	switch {
	case d.Event != m.next || d.Event >= m.below:
		t.Fatalf("decided %d, where %d is next and %d not triggered", d.Event, m.next, m.below)
	case there && (d.Decision != r.Decision || d.Builder != r.Builder || d.Score != r.Score):
		t.Fatalf("%v came out as %v", &r, &d)
	case !there && (d.Decision != filter.TimedOut || d.Builder != noBuilder):
		t.Fatalf("%v out of nothing", &d)
	case !there && !finished && waited < int64(timeout) && m.below-m.next <= uint64(m.depth):
		t.Fatalf("event %d was given up after %v", d.Event, time.Duration(waited))
	}
	m.next++
}

// Whatever is lost, doubled, late and out of order: each event has one decision, in order, and by the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const timeout = 100 * time.Microsecond
		depth := rapid.IntRange(1, 40).Draw(t, "depth")
		first := rapid.Uint64Range(0, 1000).Draw(t, "first")
		c, err := makeCore(Config{MaxPending: depth, Timeout: timeout, BuilderCount: 3, Epoch: 1, FirstEvent: first})
		if err != nil {
			t.Fatal(err)
		}
		m := model{depth: depth, next: first, below: first, results: map[uint64]Result{}, since: map[uint64]int64{}}
		now, finished, batch := int64(0), false, make([]Result, 0, rapid.IntRange(1, 9).Draw(t, "room"))
		step := func() {
			for more := true; more; {
				out := c.step(now, batch[:0])
				for _, d := range out {
					m.decided(t, d, now, timeout, finished)
				}
				more = len(out) == cap(batch)
			}
			if m.next == m.below {
				return
			}
			_, there := m.results[m.next] // why did it stop?
			if waited := now - m.since[m.next]; there || finished || waited > int64(timeout+timeout/10) ||
				m.below-m.next > uint64(depth) {
				t.Fatalf("event %d of %d waits, after %d ns, result %t", m.next, m.below, waited, there)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"result": func(t *rapid.T) {
				r := Result{
					Event:    first + uint64(int64(m.next-first)+rapid.Int64Range(-5, int64(depth)+5).Draw(t, "event"))&(1<<40-1),
					Builder:  rapid.Uint16Range(0, 3).Draw(t, "builder"),
					Decision: filter.Decision(rapid.IntRange(0, 5).Draw(t, "decision")),
					Epoch:    uint8(rapid.IntRange(0, 9).Draw(t, "epoch") / 9),
					Score:    rapid.Uint16().Draw(t, "score"),
				}
				r.Epoch ^= 1 // seldom another
				if got, want := c.accept(&r, now), m.use(r, now); got != want {
					t.Fatalf("%v: %d, not %d", &r, got, want)
				}
			},
			"triggered": func(t *rapid.T) {
				below := m.below + rapid.Uint64Range(0, 20).Draw(t, "more")
				c.markTriggered(below, now)
				m.triggered(below, now)
			},
			"time": func(t *rapid.T) { now += rapid.Int64Range(0, int64(timeout)).Draw(t, "ns") },
			"step": func(*rapid.T) { step() },
			"":     func(t *rapid.T) {},
		})
		finished = true
		c.endResults()
		step()
		s := c.snapshot()
		if m.next != m.below || s.Pending != 0 || s.Decisions() != m.below-first || s.Triggered != m.below-first {
			t.Fatalf("%d of %d are decided at the end, %+v", m.next, m.below, s)
		}
		if s.TimedOut+s.Overrun+s.Unanswered+uint64(len(m.results)) != s.Decisions() {
			t.Fatalf("%+v with %d results", s, len(m.results))
		}
	})
}

// Marks are kept in bounded memory however they come, and no event times out early.
func TestMarks(t *testing.T) {
	c := newCore(t, Config{BuilderCount: 1, MaxPending: 1 << 20, Timeout: time.Millisecond})
	now := int64(0)
	for e := uint64(1); e <= 100000; e++ { // nobody steps
		now += int64(DefaultTimeout) / 100
		c.markTriggered(e, now)
	}
	out := make([]Result, 0, 100000)
	if out = c.step(now, out); len(out) == 0 || len(out) >= 100000 {
		t.Fatal(len(out))
	}
	if out = c.step(now+2*int64(time.Millisecond), out); len(out) != 100000 {
		t.Fatal(len(out))
	}
}

func TestAllocations(t *testing.T) {
	c := newCore(t, Config{BuilderCount: 4})
	out, e, now := make([]Result, 0, 64), uint64(0), int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		for i := range uint64(16) {
			if (e+i)%7 != 0 { // some are lost
				r := Result{Event: e + i ^ 3, Builder: uint16(i % 4), Decision: filter.Accepted}
				c.accept(&r, now)
			}
		}
		e += 16
		now += int64(time.Millisecond)
		out = c.step(now, out[:0])
	}); n != 0 {
		t.Error(n)
	}
}

// BenchmarkCore is all of a decision but the links: 16 bytes in, in another order than the events, 16 bytes out.
func BenchmarkCore(b *testing.B) {
	c := newCore(b, Config{BuilderCount: 26})
	const many = 1 << 10
	in, out, to := make([]byte, many*ResultSize), make([]Result, 0, many), make([]byte, many*ResultSize)
	b.ReportAllocs()
	events := uint64(0)
	for b.Loop() {
		for i := range uint64(many) { // what builder units do is not measured, but cannot be left out here
			r := Result{Event: events + i ^ 25, Builder: uint16(i % 26), Decision: filter.Accepted}
			r.Put(in[i*ResultSize:])
		}
		now := int64(events) * 1000
		var r Result
		for i := 0; i < len(in); i += ResultSize {
			if r.Parse(in[i:i+ResultSize]) == nil {
				c.accept(&r, now)
			}
		}
		out = c.step(now, out[:0])
		for i := range out {
			out[i].Put(to[i*ResultSize:])
		}
		if len(out) != many {
			b.Fatal(len(out))
		}
		events += many
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/decision")
}
