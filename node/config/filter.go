package config

import (
	"strings"

	"ringlet/filter/builtin"
)

// FilterChoice is the filter that judges events before an output takes them; false: there is none. It holds after
// Complete.
func (c Config) FilterChoice() (choice builtin.Choice, ok bool) {
	if c.Filter == "" {
		return choice, false
	}
	choice, _ = builtin.Parse(c.Filter) // Complete has looked
	return choice, true
}

// checkFilter checks what is said of the filter, and of streams by its decisions. The outputs are settled.
func (c *Config) checkFilter(p *problems) {
	if c.Filter == "" {
		if c.Route().NeedsFilter {
			p.add("output-by", "%s needs the decisions of a filter: give filter, or another rule", c.OutputBy)
		}
		return
	}
	choice, err := builtin.Parse(c.Filter)
	if err != nil {
		p.add("filter", "%v", err)
	}
	if choice.NeedsDetector() && c.GeneratesData() && !c.SimulatesDetector() {
		p.add("filter", "%s judges what a vertex detector sends: give fragment-model velo, or an input of such data",
			c.Filter)
	}
}

// minBacklog is the smallest backlog, in bytes: backlogSegments segments of the smallest size.
const minBacklog = backlogSegments * minSegmentSize

// backlogSegments is how many segments a full backlog has at least: a second filter drains closed ones, while others
// are written.
const backlogSegments = 4

// BacklogSegment is the size of a backlog's segments. It holds after Complete.
func (c Config) BacklogSegment() Bytes { return min(c.SegmentSize, c.DiskBacklog/backlogSegments) }

// checkBacklog checks what is said of a backlog for a second filter. The outputs are settled.
func (c *Config) checkBacklog(p *problems) {
	if c.DiskBacklog == 0 {
		return
	}
	first := c.outputs()[0]
	switch {
	case c.DiskBacklog < minBacklog:
		p.add("backlog", "%s is less than %s", c.DiskBacklog, Bytes(minBacklog))
	case first.Format != "mep" || !strings.HasSuffix(first.Output, "/"):
		p.add("backlog", "a second filter needs events as they were built, in segments: let mep:DIR/ be the first output")
	}
}
