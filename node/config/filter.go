package config

import (
	"strings"

	"ringlet/filter/builtin"
)

// FilterChoice is the filter that judges events before an output takes them; false: there is none. It holds after
// Complete.
func (c OutputSettings) FilterChoice() (choice builtin.Choice, ok bool) {
	if c.Filter == "" {
		return choice, false
	}
	choice, _ = builtin.Parse(c.Filter) // Complete has looked
	return choice, true
}

// checkFilter checks what is said of the filter, and of streams by its decisions. The outputs are settled.
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

// backlogSegments is how many segments a full backlog has at least: a second filter drains closed ones, while others
// are written.
const backlogSegments = 4

// BacklogSegment is the size of a backlog's segments. It holds after Complete.
func (c OutputSettings) BacklogSegment() Bytes {
	return min(c.SegmentSize, c.DiskBacklog/backlogSegments)
}

// checkBacklog checks what is said of a backlog for a second filter. The outputs are settled.
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
