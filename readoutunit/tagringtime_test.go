package readoutunit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ringlet/tagnet/core"
	"ringlet/testkit/cases"
)

// tagRingClock runs a tagRingWorld in virtual time, in which a part of ordinary size takes a port the time 1. What is
// not a write or a tag takes no time.
type tagRingClock struct {
	*tagRingWorld
	now     float64
	ends    map[ringWrite]float64 // when the outcome of a write is known
	due     [][]float64           // when the tags passing to each readout unit, and to the scheduler, are there
	issued  map[uint64]float64    // by MEP
	latency []float64             // from issue to built
}

// Times: of a tag from unit to unit or to the scheduler, and from the end of a write to its outcome.
const hop, outcome = 0.05, 0.1

// run lets MEPs be read at random times, of the mean rate given per time, and returns the latencies in order.
func (c *tagRingClock) run(meps uint64, rate float64, random *rand.Rand) []float64 {
	c.ends, c.issued, c.due = map[ringWrite]float64{}, map[uint64]float64{}, make([][]float64, len(c.rus)+1)
	arrives, read := 0.0, uint64(0)
	for {
		c.runDue()
		if c.core.State() == core.Drained {
			slices.Sort(c.latency)
			return c.latency
		}
		next := 1e18
		if read < meps {
			next = arrives
		}
		for _, d := range c.due {
			if len(d) > 0 {
				next = min(next, d[0])
			}
		}
		for _, at := range c.ends {
			next = min(next, at)
		}
		c.now = next
		if read < meps && arrives <= c.now {
			read++
			c.read(read, read == meps)
			arrives += random.ExpFloat64() / rate
		}
	}
}

// runDue lets all happen that is due.
func (c *tagRingClock) runDue() {
	for again := true; again; {
		again = false
		for _, place := range c.fresh {
			c.issued[c.meps[place].MEP] = c.now
		}
		c.fresh = c.fresh[:0]
		for ru := range c.rus {
			for ; len(c.tokens[ru]) > 0; again = true {
				c.must(c.deliverTokens(ru))
			}
		}
		for ; len(c.grants) > 0; again = true {
			c.deliverGrant(0)
		}
		for i := len(c.writes) - 1; i >= 0; i-- {
			if x := c.writes[i]; c.ends[x] <= c.now {
				delete(c.ends, x)
				c.done(i)
				again = true
			}
		}
		for ; len(c.complete) > 0; again = true {
			c.latency = append(c.latency, c.now-c.issued[c.meps[c.complete[0]].MEP])
			c.reportBuilt(0)
		}
		for ru := range c.rus {
			if place, ok := c.send(ru); ok {
				c.ends[ringWrite{ru, place}] = c.now + c.size(ru, c.meps[place].MEP) + outcome
				again = true
			}
		}
		again = c.pass() || again
	}
}

// pass delivers the tags that are due.
func (c *tagRingClock) pass() (any bool) {
	for to := range c.passing {
		for len(c.due[to]) < len(c.passing[to]) {
			c.due[to] = append(c.due[to], c.now+hop)
		}
		for len(c.due[to]) > 0 && c.due[to][0] <= c.now {
			c.due[to] = c.due[to][1:]
			var err error
			if to < len(c.rus) {
				_, err = c.deliverTag(to)
			} else {
				_, err = c.returnTag()
			}
			c.must(err)
			any = true
		}
	}
	return any
}

// TestBypassShortensTheTail has one readout unit whose parts are five times as large now and then (TagNet-farm §V.F,
// figure V-10): with by-pass the 99th percentile of the time that a MEP takes is lower.
func TestBypassShortensTheTail(t *testing.T) {
	for _, n := range []struct{ rus, bus int }{{4, 4}, {4, 8}, {8, 16}}[:cases.Count(3, 1)] {
		var p99 [2]float64
		for i, bypass := range []bool{false, true} {
			cfg := core.Config{
				RUs:           unitNames("ru", n.rus),
				BUs:           unitNames("bu", n.bus),
				Slots:         8,
				LookAhead:     4,
				BypassBusyRUs: bypass,
			}
			c := tagRingClock{tagRingWorld: newTagRingWorld(t, cfg)}
			c.size = largeNowAndThen(1, 150)
			l := c.run(4000, 0.2, rand.New(rand.NewPCG(1, 2)))
			p99[i] = l[len(l)*99/100]
		}
		t.Logf("%d readout and %d builder units: 99 %% take less than %.1f, with by-pass %.1f ordinary parts", n.rus, n.bus,
			p99[0], p99[1])
		if p99[1] > 0.95*p99[0] {
			t.Error("by-pass does not help")
		}
	}
}

// TestRingKeepsPortsBusy holds that a tag ring with as many builder as readout units uses most of the ports: tags do
// not bunch.
func TestRingKeepsPortsBusy(t *testing.T) {
	for _, bypass := range []bool{false, true} {
		cfg := core.Config{
			RUs:           unitNames("ru", 8),
			BUs:           unitNames("bu", 8),
			Slots:         8,
			LookAhead:     4,
			BypassBusyRUs: bypass,
		}
		c := tagRingClock{tagRingWorld: newTagRingWorld(t, cfg)}
		c.size = largeNowAndThen(0, 1<<40)
		c.run(1000, 5, rand.New(rand.NewPCG(1, 2)))
		share := 1000 / c.now
		t.Logf("by-pass %v: %.2f of the port rate", bypass, share)
		if share < 0.8 { // of 1/(1 + outcome + hop) = 0.87
			t.Error("the ports are idle for long")
		}
	}
}
