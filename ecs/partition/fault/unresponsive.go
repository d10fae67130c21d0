package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ringlet/node/fsm"
)

// unresponsiveAfter is how long a node must not have been heard to be told of as one that answers nothing, where
// something waits for it in vain: its reports come every half second.
const unresponsiveAfter = 10 * time.Second

// NameUnresponsive has a fault that names nodes something waits for tell the closer cause, if that is so: some of them
// answer nothing any more, though their processes are there.
func (c *Core) NameUnresponsive(f *Fault, now time.Time) {
	var unresponsive []string
	var longest time.Duration
	now = c.clock.tick(now)
	for _, name := range strings.Split(f.Component, ", ") {
		n := c.nodes[name]
		if n == nil || n.lastReport.IsZero() {
			continue
		}
		if silent := now.Sub(n.lastReport); silent >= unresponsiveAfter {
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
