package node

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLease(t *testing.T) {
	t0 := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	type step struct {
		after       time.Duration // from t0
		lastContact time.Duration
		idle        bool
		drained     bool
		want        leaseAct
		moved       uint64
	}
	const maxSilence = 10 * time.Second
	for name, steps := range map[string][]step{
		"the control watches": {{after: time.Hour, lastContact: time.Hour}},
		"back in time": {{after: 9 * time.Second}, {after: 12 * time.Second, lastContact: 11 * time.Second},
			{after: 20 * time.Second, lastContact: 11 * time.Second}},
		"no run": {{after: time.Hour, idle: true}},
		"lost, drained": {{after: 10 * time.Second, want: leaseDrain}, {after: 12 * time.Second, want: leaseExcludeLost},
			{after: 13 * time.Second, drained: true, want: leaseStop}},
		"lost, drained already": {{after: 10 * time.Second, drained: true, want: leaseDrain},
			{after: 11 * time.Second, drained: true, want: leaseStop}},
		"lost, never drained": {{after: 10 * time.Second, want: leaseDrain},
			{after: 39 * time.Second, want: leaseExcludeLost},
			{after: 40 * time.Second, want: leaseStop}},
		"lost, drains for long": {{after: 10 * time.Second, want: leaseDrain},
			{after: 39 * time.Second, moved: 1, want: leaseExcludeLost}, {after: 68 * time.Second, moved: 2,
				want: leaseExcludeLost},
			{after: 97 * time.Second, moved: 2, want: leaseExcludeLost}, {after: 98 * time.Second, moved: 2, want: leaseStop}},
		"back while it drains": {{after: 10 * time.Second, want: leaseDrain},
			{after: 12 * time.Second, lastContact: 12 * time.Second, drained: true}},
		"lost twice": {{after: 10 * time.Second, want: leaseDrain},
			{after: 12 * time.Second, lastContact: 12 * time.Second}, {after: 22 * time.Second, lastContact: 12 * time.Second,
				want: leaseDrain}},
		"drained by the control": {{after: 5 * time.Second, drained: true}, {after: 9 * time.Second, drained: true}},
		"stopped by the control": {{after: 10 * time.Second, want: leaseDrain}, {after: 11 * time.Second, idle: true},
			{after: 50 * time.Second, idle: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var l lease
			for _, s := range steps {
				if got := l.step(t0.Add(s.after), leaseObservation{
					running:     !s.idle,
					lastContact: t0.Add(s.lastContact),
					maxSilence:  maxSilence,
					drained:     s.drained,
					progress:    s.moved,
				}); got != s.want {
					t.Errorf("at %v: %d, want %d", s.after, got, s.want)
				}
			}
		})
	}
	var l lease
	if l.step(t0.Add(minSilence/2), leaseObservation{running: true, lastContact: t0}) != leaseNone ||
		l.step(t0.Add(minSilence), leaseObservation{running: true, lastContact: t0}) != leaseDrain {
		t.Errorf("where no silence is tolerated, the least is not %v", minSilence)
	}
}

// TestLeaseAlwaysEnds holds that a run without a control ends within a bounded time after anything has moved, and one
// with a control never does by itself.
func TestLeaseAlwaysEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lease
		now := time.Unix(1e9, 0)
		lastContact, drained := now, false
		maxSilence := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "bears"))
		bound := max(maxSilence, minSilence)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "pass")))
			if rapid.IntRange(0, 5).Draw(t, "heard") == 0 {
				lastContact = now
			}
			drained = drained || rapid.IntRange(0, 20).Draw(t, "drained") == 0
			act := l.step(now, leaseObservation{
				running:     true,
				lastContact: lastContact,
				maxSilence:  maxSilence,
				drained:     drained,
			})
			silent := now.Sub(lastContact)
			if act != leaseNone && silent < bound {
				t.Fatalf("act %d after a silence of %v, where %v is tolerated", act, silent, bound)
			}
			if act == leaseStop && !drained && now.Sub(l.lostSince) < leaseGrace {
				t.Fatalf("stopped %v after the loss, and not drained", now.Sub(l.lostSince))
			}
		}
		for range 20 {
			now = now.Add(5 * time.Second)
			if l.step(now, leaseObservation{running: true, lastContact: lastContact, maxSilence: maxSilence}) == leaseStop {
				return
			}
		}
		t.Fatal("a run without a control goes on for ever")
	})
}
