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
		heard map[string]time.Time
		who   string
		part  string
	}{
		"all answer":      {map[string]time.Time{"n0": now, "n1": now}, "n0, n1", partInput},
		"one does not":    {map[string]time.Time{"n0": now, "n1": began}, "n1", PartService},
		"none does":       {map[string]time.Time{"n0": began, "n1": began}, "n0, n1", PartService},
		"none ever spoke": {nil, "n0, n1", partInput},
	} {
		t.Run(name, func(t *testing.T) {
			core := New(true)
			core.Take([]Unit{{Node: "n0", Readout: true}, {Node: "n1", Readout: true}}, "", config.Loss{}, config.Loss{})
			for at := began; !at.After(now); at = at.Add(time.Second) {
				core.Awake(at)
				for node, last := range c.heard {
					if !at.After(last) {
						core.Heard(node, at, false)
					}
				}
			}
			f := Fault{Component: "n0, n1", Part: partInput, What: "it has not told where its data end"}
			core.Mute(&f, now)
			if f.Component != c.who || f.Part != c.part {
				t.Errorf("it is told of %s, %s: %s", f.Component, f.Part, f.What)
			}
			if mute := f.Trouble == fsm.TroubleMute; mute != strings.Contains(f.What, "answered nothing for 33s") ||
				mute != (c.part == PartService) {
				t.Errorf("trouble %q: %s", f.Trouble, f.What)
			}
		})
	}
}
