package core

import (
	"errors"
	"fmt"
	"slices"
)

// Rules decide which builder unit the next MEP goes to (TagNet-farm §III.B.2). The zero value is plain round robin.
//
// The choice has three steps, and each takes turns: a turn set, a group in it, a builder unit in the group. Without
// turn sets there is one turn set, without groups each builder unit is a group. For a builder unit that has the turn
// but no free slot, Config.NoSlotPolicy says whether the scheduler waits for it or passes over it; for a group that has
// the turn and a running event, BusyGroupPolicy says it.
type Rules struct {
	// Groups of builder units that share a bottleneck: a leaf switch, a column of a torus. A group never has two running
	// events. Indices in Config.BUs, each in exactly one group. Empty means that there is no such bottleneck.
	Groups [][]int
	// BusyGroupPolicy is the policy towards a group that has the turn and a running event. Zero means Wait.
	BusyGroupPolicy Policy
	// TurnOrder says how turns are given. Zero means RoundRobin.
	TurnOrder TurnOrder
	// Ratio has the weight of each builder unit, 1 to maxWeight. Only ByRatio has one.
	Ratio []int
	// TurnSets alternate: each MEP goes to the turn set after the one that had the last MEP. If no builder unit there can
	// take it, the MEP goes to the next turn set, but never to the one that had the last MEP: before that the scheduler
	// waits, whatever the policies, unless no other turn set has an active builder unit. Indices in Config.BUs, each in
	// exactly one turn set; a group lies in one turn set. Empty means one turn set with all builder units.
	TurnSets [][]int
}

// maxWeight is the largest weight in Rules.Ratio. It bounds the table of turns, which has as many turns as the weights
// sum to.
const maxWeight = 100

// TurnOrder says how turns are given.
type TurnOrder uint8

// The turn orders. ByDemand never waits for a busy unit or group while TurnSets allow another one.
const (
	RoundRobin TurnOrder = iota // group after group, in each group builder unit after builder unit
	ByRatio                     // builder units in a fixed ratio, their turns spread evenly
	// the group with the largest share of free slots, in it the unit with the most; round robin among equals
	ByDemand
)

func (n TurnOrder) String() string {
	return enumName(int(n), "round-robin", "ratio", "demand")
}

// ParseTurnOrder reads the words "round-robin", "ratio" and "demand".
func ParseTurnOrder(s string) (TurnOrder, error) {
	for n := RoundRobin; n <= ByDemand; n++ {
		if s == n.String() {
			return n, nil
		}
	}
	return RoundRobin, fmt.Errorf("tagnet: next %q is none of round-robin, ratio, demand", s)
}

// isPlain tells that the rules are those of the zero value.
func (r *Rules) isPlain() bool {
	return len(r.Groups) == 0 && len(r.TurnSets) == 0 && r.TurnOrder == RoundRobin
}

// Check checks the rules for a view of that many builder units.
func (r *Rules) Check(bus int) error {
	if _, err := setIndexOf("group", r.Groups, bus); err != nil {
		return err
	}
	turnSetOf, err := setIndexOf("partition", r.TurnSets, bus)
	if err != nil {
		return err
	}
	for g, members := range r.Groups {
		for _, bu := range members {
			if a, b := turnSetOf[members[0]], turnSetOf[bu]; a != b {
				return fmt.Errorf("group %d lies in two partitions: builder unit %d in %d, %d in %d", g, members[0], a, bu, b)
			}
		}
	}
	return r.checkRatio(bus)
}

func (r *Rules) checkRatio(bus int) error {
	switch {
	case r.TurnOrder > ByDemand:
		return fmt.Errorf("next is %d, not between %d and %d", r.TurnOrder, RoundRobin, ByDemand)
	case r.BusyGroupPolicy > Skip:
		return fmt.Errorf("the policy towards a busy group is %d, not between %d and %d", r.BusyGroupPolicy, Wait, Skip)
	case r.BusyGroupPolicy != Wait && len(r.Groups) == 0:
		return errors.New("a policy towards busy groups is given, but no groups")
	case r.TurnOrder != ByRatio && len(r.Ratio) > 0:
		return fmt.Errorf("a ratio is given, but the next builder unit is chosen by %s", r.TurnOrder)
	case r.TurnOrder == ByRatio && len(r.Ratio) != bus:
		return fmt.Errorf("the ratio has %d weights for %d builder units", len(r.Ratio), bus)
	}
	for bu, w := range r.Ratio {
		if w < 1 || w > maxWeight {
			return fmt.Errorf("the weight of builder unit %d is %d, not between 1 and %d", bu, w, maxWeight)
		}
	}
	return nil
}

// setIndexOf returns for each builder unit the index of its set: 0 for all where there are no sets.
func setIndexOf(kind string, sets [][]int, bus int) ([]uint16, error) {
	of := make([]uint16, bus)
	if len(sets) == 0 {
		return of, nil
	}
	seen := make([]bool, bus)
	for i, members := range sets {
		if len(members) == 0 {
			return nil, fmt.Errorf("%s %d is empty", kind, i)
		}
		for _, bu := range members {
			if bu < 0 || bu >= bus {
				return nil, fmt.Errorf("%s %d names builder unit %d: there are %d, counted from 0", kind, i, bu, bus)
			}
			if seen[bu] {
				return nil, fmt.Errorf("builder unit %d is named twice, the second time in %s %d", bu, kind, i)
			}
			seen[bu], of[bu] = true, uint16(i)
		}
	}
	if bu := slices.Index(seen, false); bu >= 0 {
		return nil, fmt.Errorf("builder unit %d is in no %s: name each of the %d once", bu, kind, bus)
	}
	return of, nil
}

// spreadTurns lays out one period of turns, in which builder unit bus[i] has weights[i] turns: after every turn each
// unit has had its share so far, rounded up or down. Among the units whose next turn may begin, the one goes first
// whose turn must be over first. This always succeeds, by the scheduling theorem for one resource (earliest deadline
// first, total load 1). It takes turns × builder units steps: 12 million for 500 builder units with weights up to 100.
// The chooser does it at the beginning, and when a builder unit is excluded or included.
func spreadTurns(bus []uint16, weights []int) []uint16 {
	sum, common := 0, 0
	for _, w := range weights {
		sum += w
		for common, w = w, common; w != 0; common, w = w, common%w {
		}
	}
	if sum == 0 {
		return nil
	}
	sum /= common
	order, had := make([]uint16, 0, sum), make([]int, len(bus))
	for turn := range sum {
		best, deadline := -1, 0
		for i, w := range weights {
			w /= common
			if w == 0 || had[i]*sum >= (turn+1)*w {
				continue // the unit's next turn may not begin yet
			}
			if d := ((had[i]+1)*sum + w - 1) / w; best < 0 || d < deadline {
				best, deadline = i, d
			}
		}
		had[best]++
		order = append(order, bus[best])
	}
	return order
}
