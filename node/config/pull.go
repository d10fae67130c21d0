package config

import (
	"slices"
	"strconv"
	"strings"
)

// defaultPullWindow is how many requests a builder unit has out: one being written, one on its way to a readout unit that begins with it
// at once, and as many again for readout units that serve others just then.
const defaultPullWindow = 4

// resolvePull fills in what is said of pulling, and refuses it where nobody pulls. Slots are known, unless something is wrong already.
func (c *Config) resolvePull(p *problems) {
	if c.Discipline != DisciplinePull {
		c.refusePull(p)
		return
	}
	if c.PullWindow < 0 {
		p.add("pull-window", "%d is less than 1: one request at a time is the least", c.PullWindow)
	}
	if c.PullWindow == 0 {
		c.PullWindow = defaultPullWindow
	}
	if c.PullGroup == 0 {
		c.PullGroup = max(1, c.Slots/2)
	}
	if c.Slots > 0 && (c.PullGroup < 1 || c.PullGroup > c.Slots) {
		p.add("pull-group", "%d is not between 1 and the %d slots of a builder unit", c.PullGroup, c.Slots)
	}
	c.checkInterest(p)
}

func (c *Config) refusePull(p *problems) {
	const why = "only builder units of the discipline pull ask for MEPs: leave it out, or give discipline pull"
	for _, f := range []struct {
		key   string
		given bool
	}{
		{"pull-group", c.PullGroup != 0}, {"pull-window", c.PullWindow != 0}, {"roi-rus", c.RoIRUs != ""}, {"roi-accept", c.RoIAccept != 1},
	} {
		if f.given {
			p.add(f.key, why)
		}
	}
}

// checkInterest holds that the region of interest is some of the readout units, and that there is one where its share is given.
func (c *Config) checkInterest(p *problems) {
	if !(c.RoIAccept >= 0 && c.RoIAccept <= 1) {
		p.add("roi-accept", "%v is not a share between 0 and 1", c.RoIAccept)
	}
	if c.RoIRUs == "" {
		if c.RoIAccept != 1 {
			p.add("roi-accept", "there is no region of interest to decide on: give roi-rus")
		}
		return
	}
	var seen []int
	for s := range strings.SplitSeq(c.RoIRUs, ",") {
		ru, err := strconv.Atoi(strings.TrimSpace(s))
		switch {
		case err != nil || ru < 0:
			p.add("roi-rus", "%q is not the index of a readout unit", strings.TrimSpace(s))
			return
		case ru >= c.RUs:
			p.add("roi-rus", "there is no readout unit %d among %d", ru, c.RUs)
			return
		case slices.Contains(seen, ru):
			p.add("roi-rus", "readout unit %d is named twice", ru)
			return
		}
		seen = append(seen, ru)
	}
	if len(seen) == c.RUs {
		p.add("roi-rus", "all readout units are named, and none would be left to ask on demand: leave out at least one")
	}
}

// Interest are the readout units of the region of interest; none where nothing is decided on part of a MEP. It holds after Complete.
func (c Config) Interest() []int {
	if c.RoIRUs == "" {
		return nil
	}
	var rus []int
	for s := range strings.SplitSeq(c.RoIRUs, ",") {
		if ru, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
			rus = append(rus, ru)
		}
	}
	return rus
}
