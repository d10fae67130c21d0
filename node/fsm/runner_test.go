package fsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ringlet/testkit/patiently"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must gives commands one after the other, each of which must succeed.
func must(t *testing.T, r *Runner, commands ...Command) {
	t.Helper()
	for _, c := range commands {
		if err := r.Command(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
	}
}

func closed(t *testing.T, r *Runner) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunnerWholeLife(t *testing.T) {
	var called []Command
	actions := make(Actions)
	for _, c := range Commands() {
		if c != Pause { // a command without a function is done at once
			actions[c] = func(context.Context) error { called = append(called, c); return nil }
		}
	}
	r := New("bu1", actions, Options{})
	must(t, r, Load, Configure, Start, Start, Pause, Resume, Stop, Reset, Unload)
	if err := r.setIncluded(true); err != nil {
		t.Error(err)
	}
	closed(t, r)
	if want := []Command{Load, Configure, Start, Resume, Stop, Reset, Unload}; !slices.Equal(called, want) {
		t.Errorf("called %v, want %v", called, want)
	}
	if s := r.Status(); s.State != Offline || s.Seq != 8 || !s.Included || s.Change != 17 {
		t.Errorf("%+v", s)
	}
}

func TestRunnerRefuses(t *testing.T) {
	r := New("bu1", nil, Options{})
	var refused *PreconditionError
	if err := r.Command(t.Context(), Start); !errors.As(err, &refused) || refused.Component != "bu1" ||
		refused.State != Offline {
		t.Error(err)
	}
	if err := r.Submit(Stop); !errors.As(err, &refused) {
		t.Error(err)
	}
	if s := r.Stats(); s.RefusedCommands != 2 {
		t.Errorf("%+v", s)
	}
	closed(t, r)
}

// untilCanceled returns when its context ends, with the reason.
func untilCanceled(ctx context.Context) error {
	<-ctx.Done() // bounded by the machine, or by the bubble
	return context.Cause(ctx)
}

func TestRunnerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("ru2", Actions{Configure: untilCanceled}, Options{})
		must(t, r, Load)
		start := time.Now()
		err := r.Command(t.Context(), Configure)
		var why Cause
		if !errors.As(err, &why) || why.Kind != CauseTimeout || time.Since(start) != 30*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if want := "ru2 in Configuring: configure did not end in time (its time-out is 30s)"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		closed(t, r)
	})
}

// A stop that gets further is not cut, however long it takes; one that stands still is, when it has for its time-out.
func TestRunnerWaitsWhileItMoves(t *testing.T) {
	for name, tc := range map[string]struct {
		moves  int // once a second
		forced bool
		takes  time.Duration
	}{
		"to its end":        {moves: 300, takes: 300 * time.Second},
		"and stands still":  {moves: 7, forced: true, takes: 12 * time.Second},
		"it has never gone": {forced: true, takes: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New("bu1", Actions{Stop: func(ctx context.Context) error {
					for range tc.moves {
						time.Sleep(time.Second)
						ReportProgress(ctx)
					}
					if tc.forced {
						return untilCanceled(ctx)
					}
					return nil
				}}, Options{})
				must(t, r, Load, Configure, Start)
				began := time.Now()
				must(t, r, Stop)
				if took := time.Since(began); took != tc.takes || r.Status().Forced.IsZero() == tc.forced {
					t.Errorf("it took %v, not %v; by force: %v", took, tc.takes, r.Status().Forced)
				}
				ReportProgress(t.Context()) // no work: nothing happens
				closed(t, r)
			})
		})
	}
}

func TestRunnerTimeoutThenRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := New("ru2", Actions{Configure: func(ctx context.Context) error {
			if tries++; tries == 1 {
				return untilCanceled(ctx)
			}
			return nil
		}}, Options{Timeouts: Timeouts{Configure: time.Second}})
		must(t, r, Load)
		if err := r.Command(t.Context(), Configure); err == nil {
			t.Error("no time-out")
		}
		must(t, r, Recover, Configure, Start)
		synctest.Wait()
		if s := r.Stats(); s.StaleInputs != 1 { // the first configure ended after its time
			t.Errorf("%+v", s)
		}
		closed(t, r)
	})
}

// TestStopInterruptsStart: the functions do not overlap, and whoever waits for
// the start learns what became of it.
func TestStopInterruptsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		r := New("ru2", Actions{
			Start: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second) // it takes its time to come to rest
				order = append(order, fmt.Sprint("start gave up: ", context.Cause(ctx)))
				return ctx.Err()
			},
			Stop: func(context.Context) error { order = append(order, "stop"); return nil },
		}, Options{})
		must(t, r, Load, Configure)
		started := make(chan error)
		go func() { started <- r.Command(t.Context(), Start) }()
		synctest.Wait()
		must(t, r, Stop)
		var by *SupersededError
		if err := <-started; !errors.As(err, &by) || by.Command != Start || by.By != Stop {
			t.Error(err)
		}
		if want := []string{"start gave up: ru2: start was interrupted by stop", "stop"}; !slices.Equal(order, want) {
			t.Errorf("%q", order)
		}
		closed(t, r)
	})
}

// TestStopByForce: the function for stop hangs, deaf to its context, until it is
// forced by Abandon.
func TestStopByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		socket := make(chan struct{})
		var abandoned []string
		r := New("bu1", Actions{
			Stop: func(context.Context) error { <-socket; return nil },
		}, Options{Abandon: func(from State, why Cause) {
			abandoned = append(abandoned, fmt.Sprint(from, ": ", why.Kind))
			close(socket)
		}})
		must(t, r, Load, Configure, Start)
		start := time.Now()
		must(t, r, Stop)
		s := r.Status()
		if time.Since(start) != 5*time.Second || s.State != Ready || s.Forced.Kind != CauseTimeout ||
			s.Forced.State != Stopping {
			t.Errorf("after %v: %+v", time.Since(start), s)
		}
		must(t, r, Start)
		if want := []string{"Stopping: timeout"}; !slices.Equal(abandoned, want) || !r.Status().Forced.IsZero() {
			t.Errorf("%q, %+v", abandoned, r.Status())
		}
		closed(t, r)
	})
}

// TestStuckFunction: nothing can end it; no other function starts beside it, and
// every command, and Close, ends in its time all the same.
func TestStuckFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		starts := 0
		r := New("bu1", Actions{
			Stop:  func(context.Context) error { <-free; return nil },
			Start: func(context.Context) error { starts++; return nil },
		}, Options{})
		must(t, r, Load, Configure, Start, Stop)
		var why Cause
		if err := r.Command(t.Context(), Start); !errors.As(err, &why) || why.Kind != CauseTimeout {
			t.Error(err)
		}
		var stuck *stuckError
		start := time.Now()
		if err := r.Close(); !errors.As(err, &stuck) || stuck.Command != Stop || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		close(free)
		closed(t, r)
		if starts != 1 {
			t.Errorf("start ran %d times, though the second was given up before it could begin", starts)
		}
	})
}

func TestFunctionsFail(t *testing.T) {
	for _, c := range []struct {
		name string
		work Work
		want Cause
	}{
		{"an error", func(context.Context) error { return errors.New("no room") },
			Cause{Kind: CauseFailed, Component: "bu1", What: "load failed", Evidence: "no room", State: Loading}},
		{"a cause", func(context.Context) error {
			return fmt.Errorf("wrapped: %w", Cause{Component: "sink", What: "disk full", Evidence: "ENOSPC"})
		}, Cause{Kind: CauseFailed, Component: "sink", What: "disk full", Evidence: "ENOSPC", State: Loading}},
		{"a panic", func(context.Context) error { panic("oh") }, Cause{Kind: CausePanic, Component: "bu1", What: "panic: oh",
			Evidence: "", State: Loading}},
	} {
		r := New("bu1", Actions{Load: c.work}, Options{})
		var why Cause
		if err := r.Command(t.Context(), Load); !errors.As(err, &why) {
			t.Errorf("%s: %v", c.name, err)
		}
		if why.Kind == CausePanic {
			if !strings.Contains(why.Evidence, "runner_test.go") {
				t.Errorf("%s: its evidence does not show where: %s", c.name, why.Evidence)
			}
			why.Evidence = ""
		}
		if why != c.want || r.Status().State != Error {
			t.Errorf("%s: %+v, want %+v", c.name, why, c.want)
		}
		closed(t, r)
	}
}

func TestFaultWhileRunning(t *testing.T) {
	var abandoned sync.WaitGroup
	abandoned.Add(1)
	r := New("bu1", nil, Options{Abandon: func(from State, why Cause) {
		if from != Running || why.What != "node 3 is gone" {
			t.Errorf("abandons %s: %v", from, why)
		}
		abandoned.Done()
	}})
	must(t, r, Load, Configure, Start)
	for _, err := range []error{
		r.Degrade(Cause{What: "slow link"}), r.Restore(), r.Fail(Cause{Component: "node 3", What: "node 3 is gone"}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	patiently.Wait(t, abandoned.Wait)
	if s := r.Status(); s.State != Error || s.Cause.Component != "node 3" {
		t.Errorf("%+v", s)
	}
	closed(t, r)
}

func TestCommandStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		r := New("bu1", Actions{Load: func(context.Context) error { <-free; return nil }}, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Command(ctx, Load); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() {
			if err := r.setIncluded(true); err != nil { // a flag does not end the wait
				t.Error(err)
			}
			time.Sleep(time.Second)
			close(free)
		})
		must(t, r, Load) // under way: this waits for the same transition
		if s := r.Status(); s.State != NotReady || s.Seq != 1 {
			t.Errorf("%+v", s)
		}
		closed(t, r)
	})
}

func TestClosedRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("bu1", Actions{Load: untilCanceled}, Options{})
		waiting := make(chan error)
		go func() { waiting <- r.Command(t.Context(), Load) }()
		synctest.Wait()
		closed(t, r)
		closed(t, r)
		for _, err := range []error{
			<-waiting, r.Submit(Load), r.Command(t.Context(), Load), r.Fail(Cause{}), r.setIncluded(true), r.Restore(),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		seen := 0
		for range r.Watch(t.Context()) {
			seen++
		}
		if seen != 1 {
			t.Errorf("a watch of a closed runner shows %d statuses", seen)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("bu1", nil, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		attentive, slow := r.Watch(ctx), r.Watch(t.Context())
		var states []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for s := range attentive {
				states = append(states, s.State.String())
			}
		}()
		for _, c := range []Command{Load, Configure} {
			synctest.Wait()
			if err := r.Submit(c); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		cancel()
		<-done
		if got := states[len(states)-1]; states[0] != "Offline" || got != "Ready" {
			t.Errorf("saw %v", states)
		}
		if s := <-slow; s.State != Ready || s.Change != 4 || r.Stats().SkippedStates < 4 {
			t.Errorf("the slow one finds %+v, %+v", s, r.Stats())
		}
		must(t, r, Start)
		closed(t, r)
		if s, open := <-slow; !open || s.State != Running {
			t.Errorf("%+v", s)
		}
		if _, open := <-slow; open {
			t.Error("Close does not end a watch")
		}
	})
}
