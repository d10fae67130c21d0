package level1

import (
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
	"ringlet/testkit/must"
)

// prototype is that of F69.
func prototype(period, software sim.Time) *hosts {
	d := dma{clock: 15 * sim.Nanosecond, setUpClocks: 8, idleClocks: 10, refusedClocks: 11, burstBytes: 128}
	return &hosts{
		torus:          &torus{dma: d, cfg: sci.Dolphin(), columns: 10, rows: 3, extraClocks: 14, period: period},
		buffersPerNode: 2,
		softwareTime:   software,
		flushTimeout:   960 * sim.Nanosecond,
		message:        16,
		block:          128,
		until:          sim.Millisecond,
	}
}

// TestStopped counts by hand: an event every 810 ns, every 26th to node 14, in half a millisecond.
func TestStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("a model has one goroutine")
	}
	h := prototype(810*sim.Nanosecond, 3*sim.Microsecond)
	baseline, err := h.play(t.Context(), &modelRun{}, -1, 14)
	must.OK(t, err)
	const events = 500_000. / 810
	near := func(what string, n uint64, want float64) {
		if d := float64(n) - want; d < -3 || d > 3 {
			t.Errorf("%s: %d, want %.1f", what, n, want)
		}
	}
	near("fragments in the node", baseline.writtenFragments, 3*events/26)
	near("results of the node", baseline.watchedResults, events/26)
	near("results of others", baseline.otherResults, 25*events/26)
	near("messages", baseline.placedMessages, events)
	near("decisions", baseline.decisions, events)
	stopped, err := h.play(t.Context(), &modelRun{}, 14, 14)
	must.OK(t, err)
	if stopped.writtenFragments != baseline.writtenFragments || stopped.watchedResults != 0 {
		t.Errorf("a stopped node has %d fragments of %d, and sent %d results", stopped.writtenFragments,
			baseline.writtenFragments, stopped.watchedResults)
	}
	near("messages without the node", stopped.placedMessages, float64(baseline.placedMessages-baseline.watchedResults))
	again, err := h.play(t.Context(), &modelRun{}, 14, 14)
	must.OK(t, err)
	if diff := cmp.Diff(*stopped, *again, cmp.AllowUnexported(secondHalf{})); diff != "" {
		t.Error("the same seed gives something else:", diff)
	}
}

// TestOverwritten: a process that takes longer than the buffers last finds others' tags in them, and sends nothing.
func TestOverwritten(t *testing.T) {
	for buffers, mismatches := range map[int]bool{1: true, 2: false} {
		h := prototype(810*sim.Nanosecond, 30*sim.Microsecond) // a node's buffer is hit every 21 µs, of two every 42
		h.buffersPerNode = buffers
		a, err := h.play(t.Context(), &modelRun{}, -1, 14)
		must.OK(t, err)
		if a.mismatches > 0 != mismatches || a.placedMessages > 0 == mismatches {
			t.Errorf("%d buffers: %d mismatches, %d messages", buffers, a.mismatches, a.placedMessages)
		}
	}
}

// small is the planned farm with few rows.
func small(columns int, link float64) *farm {
	f := &farm{
		cfg:          sci.Dolphin(),
		columns:      columns + 2,
		rows:         4,
		secondColumn: (columns + 2) / 2,
		tagChains:    1,
		tagTime:      150 * sim.Nanosecond,
		dataTime:     510 * sim.Nanosecond,
		setUpClocks:  8,
		retryClocks:  19,
		fragment:     128,
		message:      16,
		events:       400,
	}
	f.period = sim.Period(link / float64(2*f.fragment))
	return f
}

// TestColumns: what little traffic there is holds nobody up, however few columns there are, and no event is lost. The
// busiest link of a row has all packets of one unit, and half of those of the other: 72 symbols and an idle one, of 3
// ns, for 128 B.
func TestColumns(t *testing.T) {
	if testing.Short() {
		t.Skip("a model has one goroutine")
	}
	for _, columns := range []int{4, 6, 8} {
		const link = 150e6
		g := &modelRun{}
		held, err := g.refusedPerFragment(t.Context(), small(columns, link), columns)
		must.OK(t, err)
		got := map[string]float64{}
		for _, r := range g.out.Results {
			got[r.Name] = r.Quantity.Value
		}
		name := func(of string) string { return of + "-" + strconv.Itoa(columns) }
		if held != 0 || got[name("events-lost")] != 0 || got[name("busy-echoes")] != 0 {
			t.Errorf("%d columns: %v", columns, got)
		}
		if least := 0.75 * link / 128 * 73 * 3e-9; got[name("busiest-link-of-a-row")] < 0.95*least {
			t.Errorf("%d columns: the busiest link of a row is used by %v, want %v at least", columns, got, least)
		}
	}
}

// TestFewColumns: two columns for four full rows holds up their units.
func TestFewColumns(t *testing.T) {
	if testing.Short() {
		t.Skip("a model has one goroutine")
	}
	f := small(2, 450e6)
	held, err := (&modelRun{}).refusedPerFragment(t.Context(), f, 2)
	must.OK(t, err)
	if held == 0 {
		t.Error("two columns take four full rows")
	}
}

// TestColumnsNeeded: the model names the least number of columns that held nobody up, and the first of the others.
func TestColumnsNeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("a model has one goroutine")
	}
	s, err := study.Parse(os.DirFS(dir), "F53.yaml")
	must.OK(t, err)
	for i := range s.Params {
		switch p := &s.Params[i]; p.Name {
		case "computing-columns":
			p.Is = "8, 4, 2"
		case "rows":
			p.Is = "4"
		case "events":
			p.Is = "300"
		}
	}
	out, err := s.Run(t.Context(), Models(), study.Env{})
	must.OK(t, err)
	got := map[string]float64{}
	for _, r := range out.Results {
		got[r.Name] = r.Quantity.Value
	}
	if got["columns-needed"] != 4 || got["retries-2"] == 0 || got["retries-4"]+got["retries-8"] != 0 {
		t.Error(got)
	}
}
