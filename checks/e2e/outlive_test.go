package e2e

import (
	"syscall"
	"testing"
	"time"
)

// outlive kills a pod with both units, the scheduler's and the control's, one after the other, in one run that records.
// The run goes on, and every event is accounted for by reading the files.
func (k *kubernetes) outlive(t *testing.T, c crew, f *figures) {
	control := process("/ringlet", "control", "--certs=/etc/ringlet/certs")
	if control == 0 {
		t.Skip("SKIPPED: its process cannot be seen from here, and its pod keeps its records on a volume that this " +
			"overlay has not")
	}
	n := c.begin(t, append([]string{
		"tagnet-node=n-0", "readout-loss=at-least 4 of 6", "builder-loss=at-least 4 of 6",
	}, recording...)...)
	c.must(t, "wait", "3s")
	whole := func(what string) {
		t.Helper()
		f.took(what, eventually(t, time.Minute, what, func() bool {
			s := c.status(t)
			if s.State != "Running" {
				t.Fatalf("the policies bear the losses, and the partition is %+v; run %+v", s, c.record(t, n))
			}
			return len(s.missing()) == 0
		}))
	}
	for _, kill := range [][2]string{
		{"n-4", "a folded pod killed: its units are back in the run"},
		{"n-0", "the scheduler's pod killed: another has the scheduler, and its units are back in the run"},
	} {
		k.kill(kill[0])
		eventually(t, 20*time.Second, kill[0]+" is missed", func() bool { return len(c.status(t).missing()) > 0 })
		whole(kill[1])
		c.must(t, "wait", "1s")
	}
	if err := syscall.Kill(control, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	whole("the control killed after them: back, and the run whole")
	c.must(t, "take-control", "wait", "2s", "stop")
	r := c.record(t, n)
	if r.Verdict != "VERDICT_DEGRADED" || r.End != "stopped" {
		t.Errorf("run %d: %s, %s: %+v", n, r.Verdict, r.End, r.Cause)
	}
	r.balanced(t)
	r.allRecorded(t)
	r.salvaged(t, k.places("n-0", "n-1", "n-2", "n-3", "n-4", "n-5")...)
	t.Logf("run %d: %s, %s events, %s", n, r.Verdict, r.EventsBuilt, r.VerdictWhy)
}
