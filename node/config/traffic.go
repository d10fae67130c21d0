package config

import (
	"cmp"
	"strconv"
	"strings"
)

// Silent is a seat of the shift without a node.
const Silent = -1

// mostTagring is how many readout units a ring may have; tagnet.MaxRing is the same.
const mostTagring = 512

// resolveTraffic checks that what is said of phases and places can be obeyed.
func (c *Config) resolveTraffic(p *problems) {
	shift := c.Discipline == DisciplineShift
	if !shift && c.PhaseEnd != PhaseEndBarrier {
		p.add("phase-end", "the discipline %s has no phases: leave out phase-end", c.Discipline)
	}
	switch window := c.PhaseEnd == PhaseEndWindow; {
	case window && c.PhaseWindow <= 0:
		p.add("phase-window", "%v is not the length of a phase: with phase-end window give one, e.g. 20ms", c.PhaseWindow)
	case !window && c.PhaseWindow != 0:
		p.add("phase-window", "%v would not be used: give it with phase-end window", c.PhaseWindow)
	}
	switch ring := c.Discipline == DisciplineTagring; {
	case ring:
		c.Bypass = cmp.Or(c.Bypass, BypassOn)
		if c.RUs > mostTagring {
			p.add("rus", "%d readout units cannot pass tags to one another, at most %d can: use another discipline", c.RUs, mostTagring)
		}
	case c.Bypass != "":
		p.add("bypass", "%s would not be used: no tags are passed on in the discipline %s", c.Bypass, c.Discipline)
	}
	if c.Seats == "" {
		return
	}
	if !shift {
		p.add("seats", "the discipline %s has no phases in which nodes would have seats: leave them out", c.Discipline)
		return
	}
	c.checkSeats(p)
}

// seat is the rank that an entry of Seats names, or Silent.
func seat(s string) (rank int, ok bool) {
	if s = strings.TrimSpace(s); s == "-" {
		return Silent, true
	}
	rank, err := strconv.Atoi(s)
	return rank, err == nil && rank >= 0
}

// checkSeats holds that every node has one seat.
func (c *Config) checkSeats(p *problems) {
	seen := make(map[int]bool)
	for i, s := range strings.Split(c.Seats, ",") {
		rank, ok := seat(s)
		switch {
		case !ok:
			p.add("seats", "%q, the entry number %d, is neither a rank nor - for a dummy", strings.TrimSpace(s), i+1)
			return
		case rank == Silent:
			continue
		case rank >= c.Nodes:
			p.add("seats", "there is no rank %d among %d nodes", rank, c.Nodes)
			return
		case seen[rank]:
			p.add("seats", "rank %d sits twice", rank)
			return
		}
		seen[rank] = true
	}
	for rank := range c.Nodes {
		if !seen[rank] {
			p.add("seats", "rank %d has no seat", rank)
			return
		}
	}
}

// Seating is the rank at each seat of the shift, or Silent. It is nil where no seats are given: units then sit in the order of their
// indices. It holds after Complete.
func (c Config) Seating() []int {
	if c.Seats == "" {
		return nil
	}
	var ranks []int
	for s := range strings.SplitSeq(c.Seats, ",") {
		rank, _ := seat(s) // each was checked
		ranks = append(ranks, rank)
	}
	return ranks
}

// Phased says whether phases wait for one another by a barrier.
func (c Config) Phased() bool {
	return c.Discipline == DisciplineShift && c.PhaseEnd == PhaseEndBarrier && c.Barrier != BarrierNone && c.RUs > 1
}
