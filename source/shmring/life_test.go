package shmring

import (
	"context"
	"errors"
	"testing"
	"time"

	"ringlet/clients/frontend"
	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestLifeInARing: a front-end that follows the run hears where it is wanted, the next one where the run is, beginning
// with Prepare, and one that does not follow counts as ready. Its last fragments are waited for.
func TestLifeInARing(t *testing.T) {
	f, path := opened(t, "")
	follower := f.(live.Follower)
	await := func(what string, is func(live.LifeStatus) bool) {
		t.Helper()
		patiently.Until(t, what, func() bool { return is(follower.Life()) })
	}
	arrived := func(s live.LifeStatus) bool { return s.Arrived }
	next := func(r *frontend.Ring, kind frontend.CommandKind) frontend.Command {
		t.Helper()
		stop := make(chan struct{})
		defer func() { <-stop }() // bounded by the next command
		asking, end := context.WithCancel(within(t))
		defer end()
		go func() { // asks how far it is only when the front-end looks for a command already
			defer close(stop)
			for ; asking.Err() == nil; time.Sleep(5 * time.Millisecond) {
				follower.Life()
			}
		}()
		c, err := r.NextCommand(within(t))
		must.OK(t, err)
		if c.Kind != kind || c.Run != 12 || c.Source != 7 {
			t.Fatalf("%+v, and not %v", c, kind)
		}
		return c
	}
	if follower.Life().Arrived {
		t.Error("a ring without a front-end is ready")
	}
	r := attachRing(t, path, frontend.RingSettings{Follow: true})
	prepare := next(r, frontend.Prepare)
	r.Answer(prepare, errors.New("no\ngas"))
	await("it has failed", func(s live.LifeStatus) bool { return s.Failed == "no?gas" && s.Follows && !s.Arrived })
	r.Answer(prepare, nil)
	await("it is ready", arrived)
	follower.Want(live.Begin)
	r.Answer(next(r, frontend.Begin), nil)
	await("it has begun", arrived)
	must.OK(t, r.Close())
	await("it is gone", func(s live.LifeStatus) bool { return !s.Attached })
	follower.Want(live.Pause)
	plain := attachRing(t, path, frontend.RingSettings{})
	await("one that does not follow counts as ready", func(s live.LifeStatus) bool { return s.Attached && s.Arrived })
	must.OK(t, plain.Close())
	await("it is gone, too", func(s live.LifeStatus) bool { return !s.Attached })
	r = attachRing(t, path, frontend.RingSettings{Follow: true})
	r.Answer(next(r, frontend.Prepare), nil)
	await("it has paused", arrived)
	follower.Want(live.Begin)
	r.Answer(next(r, frontend.Begin), nil)
	must.OK(t, r.Put(within(t), 0, []byte("last")))
	follower.Want(live.End)
	r.Answer(next(r, frontend.End), nil)
	await("its last fragment waits", func(s live.LifeStatus) bool { return s.Untaken && !s.Arrived })
	read(t, f, 1, func(live.Fragment) {})
	await("it is taken", arrived)
}
