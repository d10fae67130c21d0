package figures

import (
	"testing"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// TestReadiness holds the words for how far a front-end is.
func TestReadiness(t *testing.T) {
	const ready = nodev1.FrontendCommand_FRONTEND_COMMAND_PREPARE
	const begin, end = nodev1.FrontendCommand_FRONTEND_COMMAND_BEGIN, nodev1.FrontendCommand_FRONTEND_COMMAND_END
	for want, x := range map[string]*nodev1.SourceLife{
		"ready":                                 {Wanted: ready, Attached: true, Arrived: true},
		"begun":                                 {Wanted: begin, Attached: true, Arrived: true},
		"done":                                  {Wanted: end, Arrived: true},
		"waiting: no front-end":                 {Wanted: begin},
		"attached, and does not follow the run": {Wanted: end, Attached: true, Arrived: true},
		"waiting: its front-end has not answered begin": {Wanted: begin, Attached: true, Follows: true},
		"waiting: its last fragments are not taken":     {Wanted: end, Attached: true, Untaken: true},
		"failed: no gas": {Wanted: begin, Attached: true, Failed: "no gas"},
	} {
		if over := (&nodev1.SourceLife{Wanted: begin, Arrived: true}); want == "done" && Readiness(over) != want {
			t.Errorf("%v is %q, and not %q", over, Readiness(over), want)
		}
		if got := Readiness(x); got != want {
			t.Errorf("%v is %q, and not %q", x, got, want)
		}
	}
}
