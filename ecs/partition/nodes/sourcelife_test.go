package nodes

import (
	"testing"
	"time"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// TestJudgeStart holds for whom a start waits, and when it does so no longer.
func TestJudgeStart(t *testing.T) {
	life := func(attached, arrived bool, failed string) *nodev1.SourceLife {
		return &nodev1.SourceLife{Attached: attached, Follows: attached, Arrived: arrived, Failed: failed}
	}
	for name, c := range map[string]struct {
		of      sourceState
		waited  time.Duration
		missing string
		late    string // what the fault says
	}{
		"not required": {of: sourceState{name: "tof"}},
		"ready": {of: sourceState{name: "tof", require: time.Second, life: life(true, true, "")},
			waited: time.Hour},
		"its node is lost": {of: sourceState{name: "tof", require: time.Second, gone: true}, waited: time.Hour},
		"nobody": {of: sourceState{name: "tof", require: time.Second, life: life(false, false, "")},
			missing: "tof has no front-end"},
		"its node is silent": {of: sourceState{name: "tof", require: time.Second}, missing: "tof has no front-end"},
		"nobody for long": {of: sourceState{name: "tof", require: time.Second}, waited: time.Second,
			missing: "tof has no front-end", late: "tof has no front-end"},
		"not ready": {of: sourceState{name: "tof", require: time.Second, life: life(true, false, "")},
			missing: "the front-end of tof is attached, and has not said that it is ready"},
		"failed": {of: sourceState{name: "tof", require: time.Second, life: life(true, false, "no gas")},
			missing: "the front-end of tof is not ready for the run: no gas",
			late:    "the front-end of tof is not ready for the run: no gas"},
	} {
		t.Run(name, func(t *testing.T) {
			missing, late := judgeStart([]sourceState{c.of}, c.waited)
			said := ""
			if late != nil {
				said = late.What
			}
			if missing != c.missing || said != c.late {
				t.Errorf("it waits since %q, and fails since %q", missing, said)
			}
		})
	}
}

// TestJudgeMove: an end waits for front-ends that follow the run and answer, until they have answered the end itself.
func TestJudgeMove(t *testing.T) {
	of := func(wanted nodev1.FrontendCommand, arrived bool) sourceState {
		return sourceState{name: "tof", life: &nodev1.SourceLife{Attached: true, Follows: true, Wanted: wanted,
			Arrived: arrived}}
	}
	begun, ends := nodev1.FrontendCommand_FRONTEND_COMMAND_BEGIN, nodev1.FrontendCommand_FRONTEND_COMMAND_END
	for name, c := range map[string]struct {
		of    sourceState
		waits bool
	}{
		"done":               {of(ends, true), false},
		"not done":           {of(ends, false), true},
		"a report of before": {of(begun, true), true},
		"last fragments":     {sourceState{name: "tof", life: &nodev1.SourceLife{Wanted: ends, Untaken: true}}, true},
		"lost with them":     {sourceState{gone: true, life: &nodev1.SourceLife{Wanted: ends, Untaken: true}}, false},
		"no front-end":       {sourceState{life: &nodev1.SourceLife{Wanted: ends}}, false},
		"unknown":            {sourceState{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeMove([]sourceState{c.of}, ends); (got != "") != c.waits {
				t.Errorf("it waits for %q", got)
			}
		})
	}
}
