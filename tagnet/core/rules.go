package core

import (
	"errors"
	"fmt"
	"slices"
)

// Rules say which builder unit the next MEP goes to (TagNet-farm §III.B.2). The zero value is
// plain round robin.
//
// The choice is made in three steps, each of which takes turns: a turn set, a group in it, a builder unit in the
// group. Without turn sets there is one, without groups each builder unit is alone. A builder unit without a free
// slot, whose turn it is, is waited for or passed over as Config.NoSlotPolicy says, and a group that has its running
// event as BusyGroupPolicy says.
type Rules struct {
	// Groups of builder units that share a bottleneck: a leaf switch, a column of a torus. A group has never two running
	// events. Indices in Config.BUs, each in exactly one group. None means that there is no such bottleneck.
	Groups [][]int
	// BusyGroupPolicy is the policy towards a group whose turn it is and that has a running event. Zero means Wait.
	BusyGroupPolicy Policy
	// TurnOrder says how turns are given. Zero means RoundRobin.
	TurnOrder TurnOrder
	// Ratio has the weight of each builder unit, 1 to maxWeight, for ByRatio and for nothing else.
	Ratio []int
	// TurnSets alternate: a MEP goes to the one after the last one's. Where that is passed over, the MEP goes to the one
	// after it, but never to the last one's again: then the scheduler waits, whatever the policies, unless no other
	// turn set has an active builder unit. Indices in Config.BUs, each in exactly one turn set; a group lies in one
	// turn set. None means one of all.
	TurnSets [][]int
}

// maxWeight is the largest weight in Rules.Ratio. It bounds the table of turns, whose length is the sum of the weights.
const maxWeight = 100

// TurnOrder says how turns are given.
type TurnOrder uint8

// The ways. ByDemand never waits for a busy unit or group while there is another that TurnSets allow.
const (
	RoundRobin TurnOrder = iota // group after group, and in the group builder unit after builder unit
	ByRatio                     // builder units in a fixed ratio, their turns spread evenly
	// the group with the largest share of free slots, and in it the builder unit; round robin among equals
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

// isPlain tells that these are the rules of the zero value.
func (r *Rules) isPlain() bool {
	return len(r.Groups) == 0 && len(r.TurnSets) == 0 && r.TurnOrder == RoundRobin
}

// Check holds the rules against the number of builder units.
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

// setIndexOf tells in which of the sets each builder unit is: in set 0 where there are no sets.
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

// spreadTurns lays out one period of turns, in which builder unit bus[i] has weights[i] of them: after every turn each
// has had its share so far, rounded up or down. Of those whose next turn may begin, the one goes whose turn must be
// over first; that this always succeeds is the scheduling theorem for one resource (earliest deadline first, total load
// 1). It takes turns × builder units steps: 12 million with 500 of weights up to 100, when the rules are read and when
// a builder unit is excluded or included.
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
				continue // its next turn is not due to begin before the next one
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
