package config

import (
	"cmp"
	"fmt"
	"strings"

	"ringlet/internal/decimal"
)

// defaultPullWindow is how many requests a builder unit has under way: one being written, one on its way to a readout
// unit that serves it at once, and as many again to readout units that are serving other builder units.
const defaultPullWindow = 4

// PullGroup is how many MEPs a builder unit asks for together. It needs a completed configuration.
func (c Schedule) PullGroup() int { return max(1, c.Slots/2) }

// resolvePull fills in the settings of pulling, and refuses them for other disciplines.
func (c *draft) resolvePull() {
	window := &c.Debug.PullWindow
	if !c.DisciplineKind().Pull {
		const why = "only builder units of the discipline pull ask for MEPs: leave it out, or give discipline pull"
		if *window != 0 {
			c.add("debug.pull-window", why)
		}
		if c.RoI != "" {
			c.add("roi", why)
		}
		return
	}
	if *window < 0 {
		c.add("debug.pull-window", "%d is less than 1: one request at a time is the least", *window)
	}
	*window = cmp.Or(*window, defaultPullWindow)
	if rus, _, err := c.parseRoI(); err != nil {
		c.add("roi", "%v", err)
	} else if len(rus) > 0 && len(rus) == c.RUs {
		c.add("roi", "all readout units are named, and none would be left to ask on demand: leave out at least one")
	}
}

// RoIReadouts returns the readout units of the region of interest, and the share of MEPs that are accepted after their
// parts; nil if no decision is made on part of a MEP.
func (c Completed) RoIReadouts() (rus []int, share float64) {
	rus, share, _ = c.parseRoI()
	return rus, share
}

// RegionJudged says whether the filter judges regions of interest.
func (c Completed) RegionJudged() bool {
	return c.RoI != "" && c.Filter != "" && !strings.Contains(c.RoI, ":")
}

// parseRoI reads RoI, as "0,2" or "0,2:0.3".
func (c *Config) parseRoI() (rus []int, share float64, err error) {
	if c.RoI == "" {
		return nil, 1, nil
	}
	list, after, hasShare := strings.Cut(c.RoI, ":")
	if share = 1; hasShare {
		share, err = decimal.Float(strings.TrimSpace(after))
		if err != nil || !(share >= 0 && share <= 1) {
			return nil, 1, fmt.Errorf("%q is not a share between 0 and 1", after)
		}
	}
	if rus, err = parseIndices(list, c.RUs, "readout unit"); err == nil && rus == nil {
		err = fmt.Errorf("%q names no readout unit", c.RoI)
	}
	return rus, share, err
}
