package config

import (
	"cmp"
	"strconv"
	"strings"
)

// Ways of finding the next builder unit.
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
	if c.Discipline == DisciplinePull {
		next, empty = NextDemand, "skip" // who has asked for most is served first, and who does not ask keeps nobody waiting
	}
	c.Next, c.EmptyPlace = cmp.Or(c.Next, next), cmp.Or(c.EmptyPlace, empty)
	c.checkRatio(p)
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

func (c *Config) checkRatio(p *problems) {
	switch {
	case c.Next != NextRatio && c.Ratio != "":
		p.add("ratio", "%s would not be used: give it with next ratio", c.Ratio)
		return
	case c.Next != NextRatio:
		return
	case c.Ratio == "":
		p.add("ratio", "next ratio needs the weights of the builder units, e.g. 2,1,1")
		return
	}
	weights := strings.Split(c.Ratio, ",")
	for bu, s := range weights {
		if w, err := strconv.Atoi(strings.TrimSpace(s)); err != nil || w < 1 || w > maxWeight {
			p.add("ratio", "the weight %q of builder unit %d is not a number between 1 and %d", s, bu, maxWeight)
			return
		}
	}
	if c.BUs > 0 && len(weights) != c.BUs {
		p.add("ratio", "%d weights for %d builder units", len(weights), c.BUs)
	}
}

// Weights are those of the builder units, or nil. They hold after Complete.
func (c Config) Weights() []int {
	if c.Ratio == "" {
		return nil
	}
	var out []int
	for s := range strings.SplitSeq(c.Ratio, ",") {
		w, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return nil
		}
		out = append(out, w)
	}
	return out
}
