package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"ringlet/tagnet/core"
)

// Rules for the next builder unit that are words; any other value is a ratio of weights.
const (
	nextRoundRobin = "round-robin"
	nextDemand     = "demand"
)

// resolveRules fills in the rule for the next builder unit and the policies, and has the scheduler's rules checked.
func (c *draft) resolveRules() {
	next, empty := nextRoundRobin, "wait"
	if c.DisciplineKind().Pull {
		next, empty = nextDemand, "skip" // the unit that asks for most comes first; one that does not ask delays no other
	}
	c.Next, c.EmptyPlace = cmp.Or(c.Next, next), cmp.Or(c.EmptyPlace, empty)
	if c.Groups == "" && c.BusyGroup != "" {
		c.add("busy-group", "%s would not be used: no group can be busy where there are none; give groups", c.BusyGroup)
		return
	} else if c.Groups != "" {
		c.BusyGroup = cmp.Or(c.BusyGroup, "wait")
	}
	_, badGroups := parseSets(string(c.Groups))
	_, badPartitions := parseSets(string(c.Partitions))
	_, _, badNext := c.parseNext()
	switch rules, err := c.Rules(); {
	case badGroups != nil:
		c.add("groups", "%v", badGroups)
	case badPartitions != nil:
		c.add("partitions", "%v", badPartitions)
	case badNext != nil:
		c.add("next", "%v", badNext)
	case err == nil && c.BUs > 0: // else the problem was reported before
		if err := rules.Check(c.BUs); err != nil {
			c.add("next, groups, partitions", "%v", err)
		}
	}
}

// Rules returns the rules of the scheduler. It needs a completed configuration.
func (c Schedule) Rules() (out core.Rules, err error) {
	if out.TurnOrder, out.Ratio, err = c.parseNext(); err != nil {
		return out, err
	}
	if c.BusyGroup != "" {
		if out.BusyGroupPolicy, err = core.ParsePolicy(c.BusyGroup); err != nil {
			return out, err
		}
	}
	out.Groups, out.TurnSets = c.Groups.lists(), c.Partitions.lists()
	return out, nil
}

func (c *Schedule) parseNext() (rule core.TurnOrder, weights []int, err error) {
	switch c.Next {
	case nextRoundRobin:
		return core.RoundRobin, nil, nil
	case nextDemand:
		return core.ByDemand, nil, nil
	}
	for s := range strings.SplitSeq(c.Next, ",") {
		w, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return 0, nil, fmt.Errorf("%q is neither %s, nor %s, nor the weights of the builder units, such as 2,1,1",
				c.Next, nextRoundRobin, nextDemand)
		}
		weights = append(weights, w)
	}
	return core.ByRatio, weights, nil
}
