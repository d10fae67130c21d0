package config

import (
	"ringlet/trigger/filters"
)

// FilterChoice is the filter that judges events before an output takes them; false: there is none. It holds after
// Complete.
func (c Config) FilterChoice() (choice filters.Choice, ok bool) {
	if c.Filter == "" {
		return choice, false
	}
	choice, _ = filters.Parse(c.Filter) // Complete has looked
	return choice, true
}

// checkFilter checks what is said of the filter, and of streams by its decisions. The outputs are settled.
func (c *Config) checkFilter(p *problems) {
	if c.Filter == "" {
		if c.Route().Filter {
			p.add("output-by", "%s needs the decisions of a filter: give filter, or another rule", c.OutputBy)
		}
		return
	}
	choice, err := filters.Parse(c.Filter)
	if err != nil {
		p.add("filter", "%v", err)
	}
	if choice.Detector() && c.Generated() && !c.Simulated() {
		p.add("filter", "%s judges what a vertex detector sends: give fragment-model velo, or an input of such data",
			c.Filter)
	}
}
