package config

import (
	"strconv"
	"strings"
	"time"

	"ringlet/barrier"
	"ringlet/internal/registry"
	"ringlet/readoutunit"
	"ringlet/transport"
)

const (
	// maxSlack is the most phases that a unit may be ahead: more than is useful, and few enough to keep an epoch of the
	// barrier for each.
	maxSlack = 16
	// autoSlack is the best slack for the network: 0 between hosts, where units that are ahead meet others at a port.
	autoSlack = -1
)

// DummySeat is a seat of the shift without a node.
const DummySeat = -1

// Phases returns what ends the phases: a barrier, count, or a time with its length. It needs a completed configuration.
func (c Traffic) Phases() (end string, length time.Duration) {
	if c.PhaseEnd == phaseEndCount {
		return phaseEndCount, 0
	}
	if length, err := time.ParseDuration(c.PhaseEnd); err == nil {
		return phaseEndTime, length
	}
	return PhaseEndBarrier, 0
}

// resolveDiscipline checks the settings of phases and seats against the discipline.
func (c *draft) resolveDiscipline() {
	d := c.DisciplineKind()
	if d.Name == "" {
		return // already reported
	}
	switch end, length := c.Phases(); {
	case end == PhaseEndBarrier:
		if _, err := barrier.ParseKind(c.PhaseEnd); err != nil {
			c.add("phase-end", "%q is neither a barrier (%s), nor count, nor a time such as 20ms", c.PhaseEnd,
				strings.Join(registry.Names(barrier.Kinds), ", "))
		}
	case !d.Phases:
		c.add("phase-end", "the discipline %s has no phases: leave out phase-end", c.Discipline)
	case end == phaseEndTime && length <= 0:
		c.add("phase-end", "%v is not the length of a phase: give e.g. 20ms", length)
	}
	if d.MaxRUs > 0 && c.RUs > d.MaxRUs {
		c.add("rus", "%d readout units cannot pass tags to one another, at most %d can: use another discipline",
			c.RUs, d.MaxRUs)
	}
	if c.Seats == "" {
		return
	}
	if !d.Phases {
		c.add("seats", "the discipline %s has no phases in which nodes would have seats: leave them out", c.Discipline)
		return
	}
	c.checkSeats()
}

// parseSeat reads an entry of Seats: a rank, or DummySeat.
func parseSeat(s string) (rank int, ok bool) {
	if s = strings.TrimSpace(s); s == "-" {
		return DummySeat, true
	}
	rank, err := strconv.Atoi(s)
	return rank, err == nil && rank >= 0
}

// checkSeats checks that every node has one seat.
func (c *draft) checkSeats() {
	seen := make(map[int]bool)
	for i, s := range strings.Split(c.Seats, ",") {
		rank, ok := parseSeat(s)
		switch {
		case !ok:
			c.add("seats", "%q, the entry number %d, is neither a rank nor - for a dummy", strings.TrimSpace(s), i+1)
			return
		case rank == DummySeat:
			continue
		case rank >= c.Nodes:
			c.add("seats", "there is no rank %d among %d nodes", rank, c.Nodes)
			return
		case seen[rank]:
			c.add("seats", "rank %d sits twice", rank)
			return
		}
		seen[rank] = true
	}
	for rank := range c.Nodes {
		if !seen[rank] {
			c.add("seats", "rank %d has no seat", rank)
			return
		}
	}
}

// SeatRanks has the rank at each seat of the shift, or DummySeat. It is nil if no seats are given: units then sit in
// the order of their indices. It needs a completed configuration.
func (c Traffic) SeatRanks() []int {
	if c.Seats == "" {
		return nil
	}
	var ranks []int
	for s := range strings.SplitSeq(c.Seats, ",") {
		rank, _ := parseSeat(s) // checkSeats has checked it
		ranks = append(ranks, rank)
	}
	return ranks
}

// resolveSlack sets PhaseSlack.
func (c *draft) resolveSlack() {
	end, _ := c.Phases()
	held := c.DisciplineKind().Phases && end == PhaseEndBarrier
	switch {
	case c.PhaseSlack > 0 && !held:
		c.add("phase-slack", "no barrier holds the phases: leave it out")
	case c.PhaseSlack == autoSlack:
		c.PhaseSlack = 0
		if held && (c.OneHost || c.Carriers().Carrier == transport.CarrierLocal) {
			c.PhaseSlack = min(c.maxUsefulSlack(), maxSlack)
		}
	}
}

// maxUsefulSlack is the most useful slack, one less than a round has phases: the number of cycles in the next round is
// agreed in an epoch of the present one.
func (c Config) maxUsefulSlack() int {
	phases := readoutunit.PhaseCount(c.RUs, c.BUs)
	if ranks := c.SeatRanks(); ranks != nil {
		phases = len(ranks)
	}
	return max(0, phases-1)
}

// EffectiveSlack is how many phases a readout unit may be ahead of the slowest one.
func (c Completed) EffectiveSlack() int { return min(c.PhaseSlack, c.maxUsefulSlack()) }

// Phased says whether a barrier makes units wait for each other between phases.
func (c Config) Phased() bool { return c.BarrierKind() != barrier.None && c.RUs > 1 }
