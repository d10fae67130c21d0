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
			core := New(true, config.Default().Timeouts())
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

// TestSilentWhileTheControlCameBack holds that a node which answered a new control late, and then misses the link to a
// node whose reports come, is blamed itself: it stood still.
func TestSilentWhileTheControlCameBack(t *testing.T) {
	for after, who := range map[time.Duration]string{5 * time.Second: "n1", 100 * time.Millisecond: "n2"} {
		core, now := New(false, config.Default().Timeouts()), time.Unix(1000, 0)
		core.SetView([]Unit{{Node: "n0", Builder: true}, {Node: "n1", Builder: true}, {Node: "n2", Builder: true}}, "",
			config.LossPolicy{MinUnits: 1}, config.LossPolicy{MinUnits: 1})
		core.BeginRun()
		core.AcceptReports()
		for _, name := range []string{"n0", "n1", "n2"} {
			core.NoteReport(name, now, false)
		}
		NoteAnswer(core, "n1", now, after)
		action, f := core.Observe(Observation{Kind: Disconnected, ReportedBy: "n1",
			Fault: Fault{Component: "n2", Subsystem: SubsystemTransport, What: "the link of n1 to it is down", At: now}})
		if action != LoseUnit || f.Component != who {
			t.Errorf("n1 answered after %v: action %d, for %s: %s", after, action, f.Component, f.What)
		}
	}
}

// TestStalledNodeMissesOneThatIsLost holds that a node which was silent is not blamed for its lost link to a node that
// the run goes on without already, though that node's process still reports, as when its units were moved by hand.
func TestStalledNodeMissesOneThatIsLost(t *testing.T) {
	core, now := New(false, config.Default().Timeouts()), time.Unix(1000, 0)
	core.SetView([]Unit{{Node: "n0", Readout: true}, {Node: "n1", Builder: true}, {Node: "n2", Builder: true}}, "n0",
		config.LossPolicy{MinUnits: 1}, config.LossPolicy{MinUnits: 1})
	core.BeginRun()
	core.AcceptReports()
	core.NoteReport("n1", now, false)
	core.NoteReport("n2", now, false)
	moved := Fault{Component: "n2", Subsystem: SubsystemNodeService, What: "soak moves its units to n4", At: now}
	if action, _ := core.Observe(Observation{Kind: SilentToControl, Fault: moved}); action != LoseUnit {
		t.Fatalf("n2 is moved: action %d", action)
	}
	NoteAnswer(core, "n0", now, 3*time.Second)
	action, f := core.Observe(Observation{Kind: Disconnected, ReportedBy: "n0",
		Fault: Fault{Component: "n2", Subsystem: SubsystemTransport, What: "the link of n0 to it is down", At: now}})
	if action != NoAction || f.Component != "n2" {
		t.Errorf("action %d, for %s: %s", action, f.Component, f.What)
	}
}
