package config

import (
	"strings"

	"ringlet/filter/builtin"
)

// FilterChoice is the filter that judges events before they go to an output; false if there is none. It needs a
// completed configuration.
func (c OutputSettings) FilterChoice() (choice builtin.Choice, ok bool) {
	if c.Filter == "" {
		return choice, false
	}
	choice, _ = builtin.Parse(c.Filter) // Complete has checked it
	return choice, true
}

// checkFilter checks the filter, and routes by its decisions. The outputs are resolved.
func (c *draft) checkFilter() {
	if c.Filter == "" {
		if c.Route().NeedsFilter {
			c.add("output-by", "%s needs the decisions of a filter: give filter, or another rule", c.OutputBy)
		}
		return
	}
	choice, err := builtin.Parse(c.Filter)
	if err != nil {
		c.add("filter", "%v", err)
	}
	if choice.NeedsDetector() && c.GeneratesData() && !c.SimulatesDetector() {
		c.add("filter", "%s judges what a vertex detector sends: give fragment-model velo, or an input of such data",
			c.Filter)
	}
}

// minBacklog is the smallest backlog, in bytes: backlogSegments segments of the smallest size.
const minBacklog = backlogSegments * minSegmentSize

// backlogSegments is the least number of segments in a full backlog: a second filter drains closed segments while
// others are written.
const backlogSegments = 4

// BacklogSegment is the size of a backlog's segments. It needs a completed configuration.
func (c OutputSettings) BacklogSegment() Bytes {
	return min(c.SegmentSize, c.DiskBacklog/backlogSegments)
}

// checkBacklog checks the backlog for a second filter. The outputs are resolved.
func (c *draft) checkBacklog() {
	if c.DiskBacklog == 0 {
		return
	}
	first := c.outputs()[0]
	switch {
	case c.DiskBacklog < minBacklog:
		c.add("backlog", "%s is less than %s", c.DiskBacklog, Bytes(minBacklog))
	case first.Format != "mep" || !strings.HasSuffix(first.Output, "/"):
		c.add("backlog", "a second filter needs events as they were built, in segments: let mep:DIR/ be the first output")
	}
}
