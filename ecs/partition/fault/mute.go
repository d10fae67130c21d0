package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ringlet/node/fsm"
)

// muteAfter is how long a node must not have been heard to be told of as one that answers nothing, where something
// waits for it in vain: its reports come every half second.
const muteAfter = 10 * time.Second

// Mute has a fault that names nodes something waits for tell the closer cause, if that is so: some of them answer
// nothing any more, though their processes are there.
func (c *Core) Mute(f *Fault, now time.Time) {
	var mute []string
	var longest time.Duration
	now = c.awake.tick(now)
	for _, name := range strings.Split(f.Component, ", ") {
		n := c.nodes[name]
		if n == nil || n.heard.IsZero() {
			continue
		}
		if silent := now.Sub(n.heard); silent >= muteAfter {
			mute, longest = append(mute, name), max(longest, silent)
		}
	}
	if len(mute) == 0 {
		return
	}
	slices.Sort(mute)
	f.Component, f.Part, f.Trouble = strings.Join(mute, ", "), PartService, fsm.TroubleMute
	f.What = fmt.Sprintf("its process is there and has answered nothing for %v, while the run was to end",
		longest.Round(time.Second))
	f.Evidence = "seen by the control"
}
