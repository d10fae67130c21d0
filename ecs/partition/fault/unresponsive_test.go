package fault

import (
	"strings"
	"testing"
	"time"

	"ringlet/node/config"
	"ringlet/node/fsm"
)

// What the end of a run waits for in vain is told of the nodes that answer nothing, where there are any.
func TestMute(t *testing.T) {
	began := time.Unix(1000, 0)
	now := began.Add(33 * time.Second)
	for name, c := range map[string]struct {
		lastReport map[string]time.Time
		who        string
		subsystem  string
	}{
		"all answer":      {map[string]time.Time{"n0": now, "n1": now}, "n0, n1", subsystemInput},
		"one does not":    {map[string]time.Time{"n0": now, "n1": began}, "n1", SubsystemNodeService},
		"none does":       {map[string]time.Time{"n0": began, "n1": began}, "n0, n1", SubsystemNodeService},
		"none ever spoke": {nil, "n0, n1", subsystemInput},
	} {
		t.Run(name, func(t *testing.T) {
			core := New(true)
			core.SetView([]Unit{{Node: "n0", Readout: true}, {Node: "n1", Readout: true}}, "", config.LossPolicy{},
				config.LossPolicy{})
			for at := began; !at.After(now); at = at.Add(time.Second) {
				core.AwakeTime(at)
				for node, last := range c.lastReport {
					if !at.After(last) {
						core.NoteReport(node, at, false)
					}
				}
			}
			f := Fault{Component: "n0, n1", Subsystem: subsystemInput, What: "it has not told where its data end"}
			core.NameUnresponsive(&f, now)
			if f.Component != c.who || f.Subsystem != c.subsystem {
				t.Errorf("it is told of %s, %s: %s", f.Component, f.Subsystem, f.What)
			}
			if unresponsive := f.Trouble == fsm.TroubleUnresponsive; unresponsive != strings.Contains(f.What,
				"answered nothing for 33s") ||
				unresponsive != (c.subsystem == SubsystemNodeService) {
				t.Errorf("trouble %q: %s", f.Trouble, f.What)
			}
		})
	}
}
