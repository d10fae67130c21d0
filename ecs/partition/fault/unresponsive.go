package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ringlet/node/fsm"
)

// NameUnresponsive narrows a fault down. f.Component lists the nodes that the end of a run waits for; if some of them
// have sent no report for Timeouts.Control, f becomes the fault of those: their processes exist and hang.
func (c *Core) NameUnresponsive(f *Fault, now time.Time) {
	var unresponsive []string
	var longest time.Duration
	now = c.clock.tick(now)
	for _, name := range strings.Split(f.Component, ", ") {
		n := c.nodes[name]
		if n == nil || n.lastReport.IsZero() {
			continue
		}
		if silent := now.Sub(n.lastReport); silent >= c.timeouts.Control {
			unresponsive, longest = append(unresponsive, name), max(longest, silent)
		}
	}
	if len(unresponsive) == 0 {
		return
	}
	slices.Sort(unresponsive)
	f.Component, f.Subsystem, f.Trouble = strings.Join(unresponsive, ", "), SubsystemNodeService, fsm.TroubleUnresponsive
	f.What = fmt.Sprintf("its process is there and has answered nothing for %v, while the run was to end",
		longest.Round(time.Second))
	f.Evidence = "seen by the control"
}
