package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// The pauses are a plan of their own: in each run one process is stopped for up to half a minute, either the control or
// a node with one unit and without the scheduler. The policy of each run tolerates that. The plan checks that the run
// goes on, and that no other unit is lost.

// pauseShapes have one unit on each node, and a readout unit besides the one on the scheduler's node.
var pauseShapes = []unitLayout{
	{nodes: 5, rus: 2, bus: 3, scheduler: "n0"},
	{nodes: 5, rus: 3, bus: 2, scheduler: "n0"},
	{nodes: 4, rus: 2, bus: 2, scheduler: "n0"},
}

// The longest pauses. The one of a short plan is a little longer than links and barriers tolerate.
const (
	longestPause      = 30 * time.Second
	longestShortPause = 8 * time.Second
)

// planPauses makes the run of this index.
func planPauses(seed uint64, index int, env env) plannedRun {
	d := &dice{rand.New(rand.NewPCG(seed, uint64(index)))}
	r := plannedRun{Index: index, Place: sharedFiles, Policy: policy{Durability: "memory"}, Length: 2 * time.Second}
	s := pauseShapes[d.IntN(len(pauseShapes))]
	r.Settings = d.drawPauseSettings(s)
	if index%faultlessEvery == 0 {
		return r
	}
	longest := longestPause
	if env.Short {
		longest = longestShortPause
	}
	f := fault{At: d.between(time.Second, 3*time.Second), Duration: d.between(time.Second, longest)}
	switch kinds := []kind{stopBuilder, stopBuilder, stopReadout, stopReadout, stopControl}; kinds[d.IntN(len(kinds))] {
	case stopBuilder:
		f.Kind, f.Node = stopBuilder, d.pick(s.builders()...)
	case stopReadout:
		f.Kind, f.Node = stopReadout, d.pick(s.readouts()[1:]...)
	default:
		f.Kind = stopControl
	}
	r.Faults, r.Length = []fault{f}, f.At+f.Duration+d.between(500*time.Millisecond, 4*time.Second)
	return r
}

// drawPauseSettings draws the settings of a run in which one process is paused.
func (d *dice) drawPauseSettings(s unitLayout) (set []string) {
	add := func(name string, value any) { set = append(set, fmt.Sprintf("%s=%v", name, value)) }
	d.addCommonSettings(s, add)
	add("discipline", d.pick("shift", "shift", "push", "free", "pull"))
	add("transport", d.pick("quic", "quic", "quic-go", "stream", "auto"))
	add("verify", "crc")
	add("readout-loss", d.pick("expendable", fmt.Sprintf("at-least %d of %d", s.rus-1, s.rus)))
	add("builder-loss", d.pick("expendable", fmt.Sprintf("at-least %d of %d", s.bus-1, s.bus)))
	add("sources", 2*s.rus)
	add("fragment-size", 50)
	add("packing", 100)
	add("rate", 2000)
	return set
}

// judgePauses checks the outcome of a run in which one process was paused: it must have ended by the operator's stop,
// and may have lost the paused unit and no other.
func judgePauses(r plannedRun, t *trial) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(t.Problems) > 0 {
		return nil
	}
	if len(t.Runs) != 1 {
		add("one run was begun, and there are %d", len(t.Runs))
	}
	paused := ""
	if len(r.Faults) > 0 {
		paused = r.Faults[0].Node
	}
	for _, run := range t.Runs {
		if run.GetEnd() != "stopped" {
			add("run %d: it ended by %s, and not as it was asked to", run.GetNumber(), endReason(run))
		}
		switch v := run.GetVerdict(); {
		case v == ecsv1.Verdict_VERDICT_GOOD:
		case v != ecsv1.Verdict_VERDICT_DEGRADED || paused == "":
			add("run %d: %s, for a pause that it tolerates: %s", run.GetNumber(), verdict(run), endReason(run))
		}
		reported, err := parseFigures(run)
		if err != nil {
			continue // judgeRecord reports the error
		}
		if i := slices.IndexFunc(reported.Losses, func(l lossEntry) bool {
			return l.Unit == "units" &&
				l.Of != paused
		}); i >= 0 {
			add("run %d: %s is lost, and %s stood still", run.GetNumber(), reported.Losses[i].Of, paused)
		}
	}
	return problems
}
