package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Ways of finding the next builder unit that are words; anything else is the weights of a ratio.
const (
	NextRoundRobin = "round-robin"
	NextRatio      = "ratio"
	NextDemand     = "demand"
)

// maxWeight is the largest weight of a ratio, tagnet.MaxWeight.
const maxWeight = 100

// resolveRules checks the scheduler's rules against the builder units there are, and fills in how the next is found and the policies.
func (c *Config) resolveRules(p *problems) {
	next, empty := NextRoundRobin, "wait"
	if c.Traffic().Pull {
		next, empty = NextDemand, "skip" // who has asked for most is served first, and who does not ask keeps nobody waiting
	}
	c.Next, c.EmptyPlace = cmp.Or(c.Next, next), cmp.Or(c.EmptyPlace, empty)
	if _, _, err := c.next(); err != nil {
		p.add("next", "%v", err)
	}
	if c.Groups == "" {
		if c.BusyGroup != "" {
			p.add("busy-group", "%s would not be used: no group can be busy where there are none; give groups", c.BusyGroup)
		}
	} else if c.BusyGroup == "" {
		c.BusyGroup = "wait"
	}
	groups, okGroups := c.checkSets(p, "groups", c.Groups)
	parts, okParts := c.checkSets(p, "partitions", c.Partitions)
	if !okGroups || !okParts || parts == nil {
		return
	}
	partOf := make(map[int]int)
	for i, members := range parts {
		for _, bu := range members {
			partOf[bu] = i
		}
	}
	for g, members := range groups {
		for _, bu := range members {
			if a, b := partOf[members[0]], partOf[bu]; a != b {
				p.add("groups, partitions", "group %d lies in two partitions: builder unit %d in %d, %d in %d", g, members[0], a, bu, b)
				return
			}
		}
	}
}

// checkSets holds that each builder unit stands in exactly one of the sets.
func (c *Config) checkSets(p *problems, key string, s Sets) ([][]int, bool) {
	sets, err := ParseSets(string(s))
	if err != nil {
		p.add(key, "%v", err)
		return nil, false
	}
	if sets == nil || c.BUs <= 0 { // without builder units something else is wrong, and said
		return sets, true
	}
	seen := make(map[int]bool)
	for i, members := range sets {
		for _, bu := range members {
			switch {
			case bu >= c.BUs:
				p.add(key, "set %d names builder unit %d: there are %d, counted from 0", i, bu, c.BUs)
				return nil, false
			case seen[bu]:
				p.add(key, "builder unit %d is named twice, the second time in set %d", bu, i)
				return nil, false
			}
			seen[bu] = true
		}
	}
	for bu := range c.BUs {
		if !seen[bu] {
			p.add(key, "builder unit %d is in none of the sets: name each of the %d once", bu, c.BUs)
			return nil, false
		}
	}
	return sets, true
}

// NextRule is how the next builder unit is found, and the weights of a ratio, by builder unit. It holds after Complete.
func (c Config) NextRule() (rule string, weights []int) {
	rule, weights, _ = c.next()
	return rule, weights
}

func (c *Config) next() (rule string, weights []int, err error) {
	if c.Next == NextRoundRobin || c.Next == NextDemand {
		return c.Next, nil, nil
	}
	for s := range strings.SplitSeq(c.Next, ",") {
		w, err := strconv.Atoi(strings.TrimSpace(s))
		switch {
		case err != nil && weights == nil:
			return "", nil, fmt.Errorf("%q is neither %s, nor %s, nor the weights of the builder units, such as 2,1,1",
				c.Next, NextRoundRobin, NextDemand)
		case err != nil || w < 1 || w > maxWeight:
			return "", nil, fmt.Errorf("the weight %q of builder unit %d is not a number between 1 and %d",
				s, len(weights), maxWeight)
		}
		weights = append(weights, w)
	}
	if c.BUs > 0 && len(weights) != c.BUs {
		return "", nil, fmt.Errorf("%d weights for %d builder units", len(weights), c.BUs)
	}
	return NextRatio, weights, nil
}
