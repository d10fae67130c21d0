package core

import (
	"fmt"
	"testing"
)

// driver answers every token with feedback at once; a decision is a token issued and its feedback.
type driver struct {
	core  *Allocator
	batch Batch
	read  uint64
}

func newDriver(tb testing.TB, bus, slots int, change func(*Config)) *driver {
	tb.Helper()
	cfg := Config{
		RUs:     names("ru", 4),
		BUs:     names("bu", bus),
		Slots:   slots,
		Packing: 10,
	}
	change(&cfg)
	core := newAllocator(tb, cfg)
	core.Start()
	return &driver{core: core}
}

// step lets the readout units read ahead, issues what can be issued and returns the slots. It returns the decisions
// made.
func (d *driver) step(tb testing.TB) int {
	d.read += uint64(d.core.PlacesPerCycle() * d.core.cfg.Slots)
	for ru := range 4 {
		must(tb, d.core.ApplyUpdate(ru, Update{ReadBelow: d.read, Events: 10 * d.read}))
	}
	d.batch.Reset(d.core.NextCycle(), d.core.PlacesPerCycle())
	n := d.core.Issue(&d.batch)
	for i := range d.batch.Len() {
		for place := range d.batch.PlacesPerCycle {
			t, ok := d.batch.Token(i, place)
			if !ok {
				continue
			}
			f := t.built(10)
			must(tb, d.core.ApplyFeedback(place, f))
		}
	}
	return n
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	for name, change := range views(26) {
		d := newDriver(t, 26, 8, change)
		d.step(t)
		if n := testing.AllocsPerRun(100, func() { d.step(t) }); n != 0 {
			t.Errorf("%s: %v allocations per step, want 0", name, n)
		}
	}
}

// views are the kinds of rules that differ in what a decision costs; "plain" is the cursor.
func views(bus int) map[string]func(*Config) {
	weights, pairs := make([]int, bus), make([][]int, bus/2)
	for i := range weights {
		weights[i] = 1 + i%3
	}
	for i := range pairs {
		pairs[i] = []int{2 * i, 2*i + 1}
	}
	return map[string]func(*Config){
		"plain":  func(*Config) {},
		"loose":  func(c *Config) { c.Loose = true },
		"groups": func(c *Config) { c.Rules.Groups, c.Rules.BusyGroupPolicy, c.NoSlotPolicy = pairs, Skip, Skip },
		"ratio":  func(c *Config) { c.Rules.TurnOrder, c.Rules.Ratio, c.Loose = ByRatio, weights, true },
		"demand": func(c *Config) { c.Rules.TurnOrder, c.Loose = ByDemand, true },
	}
}

func BenchmarkDecisions(b *testing.B) {
	for _, bus := range []int{4, 26} {
		for _, rules := range []string{"plain", "loose", "groups", "ratio", "demand"} {
			b.Run(fmt.Sprintf("bus=%d/%s", bus, rules), func(b *testing.B) {
				d := newDriver(b, bus, 16, views(bus)[rules])
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					n += d.step(b)
				}
				if got := d.core.Registers().Counters.Built; got != uint64(n) {
					b.Fatalf("%d built of %d", got, n)
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "decisions/s")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/decision")
			})
		}
	}
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}
