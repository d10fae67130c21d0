package standstill

import (
	"testing"
	"time"
)

// look calls Wait every Tick for a time, and returns after which time it was over; -1: not in that time.
func look(d *Detector, now *time.Duration, most time.Duration) time.Duration {
	for begun := *now; *now-begun <= most; *now += Tick {
		if d.Wait(*now) {
			return *now - begun
		}
	}
	return -1
}

func TestLimitFollowsTheWaitsSeen(t *testing.T) {
	var d Detector
	var now time.Duration
	if got := look(&d, &now, time.Minute); got != coldLimit {
		t.Errorf("a cold unit waits %v, not %v", got, coldLimit)
	}
	d.GiveUp()
	d.Warm = true
	if got := look(&d, &now, time.Minute); got != Least {
		t.Errorf("a unit that has seen no wait waits %v, not %v", got, Least)
	}
	d.GiveUp()
	d.Wait(now)
	now += 40 * time.Millisecond
	d.Wait(now)
	now += 40 * time.Millisecond
	d.End(now)
	if got, want := d.Limit(), factor*80*time.Millisecond; got != want {
		t.Errorf("after a wait of 80 ms the limit is %v, not %v", got, want)
	}
	for range 2 * windowWaits { // the long wait is forgotten
		d.Wait(now)
		d.End(now)
	}
	if got := d.Limit(); got != Least {
		t.Errorf("the limit is %v after many short waits, not %v", got, Least)
	}
}

// TestOwnPausesDoNotCount has the unit itself stand still: it comes to the time late.
func TestOwnPausesDoNotCount(t *testing.T) {
	d := Detector{Warm: true}
	for i := range time.Duration(3) {
		if d.Wait(i * time.Minute) {
			t.Fatal("the unit gave up, but it stood still itself")
		}
	}
}
