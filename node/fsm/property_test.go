package fsm

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a shell in virtual time around the machine, watched by its laws.
type model struct {
	machine machine
	status  Status
	now     time.Duration
	armed   bool // a timer is running
	seq     uint64
	at      time.Duration
	finish  time.Duration // when the Stop or Reset under way must have ended
}

// feed takes one input and carries out the actions.
func (m *model) feed(t *rapid.T, in input) {
	before := m.status
	next, actions, err := m.machine.step(before, in)
	if err != nil {
		if next != before || len(actions) > 0 {
			t.Fatalf("«%v» was refused in %s, but did something", in, before.State)
		}
		return
	}
	published := uint64(0)
	for _, a := range actions {
		switch a.Kind {
		case actionDisarm:
			m.armed = false
		case actionArm:
			if m.armed {
				t.Fatalf("«%v» in %s arms a second timer", in, before.State)
			}
			m.armed, m.seq, m.at = true, a.Seq, m.now+a.After
		case actionPublish:
			published++
		case actionRunCommand:
			if a.Seq != next.Seq || a.Command != next.Command {
				t.Fatalf("%v in %+v", a, next)
			}
		case actionAbandon:
			if a.From != before.State || a.Why.IsZero() {
				t.Fatalf("%v for %+v", a, before)
			}
		}
	}
	if next.Change-before.Change != published || (next != before) != (published == 1) {
		t.Fatalf("«%v» in %s: %d published, status %+v", in, before.State, published, next)
	}
	m.status = next
	m.check(t, before.State, in)
}

// check holds the laws of a status and of the step that led to it.
func (m *model) check(t *rapid.T, before State, in input) {
	s := m.status
	if s.State.IsTransitional() != m.armed || m.armed && m.seq != s.Seq {
		t.Fatalf("after «%v» in %s, timer %v for #%d: the machine is stuck or disturbed", in, s.State, m.armed, m.seq)
	}
	row, _ := transitionOf(s.Command)
	if s.State.IsTransitional() != (s.Command != 0) || s.Command != 0 && row.Via != s.State {
		t.Fatalf("command %s is under way in %s", s.Command, s.State)
	}
	if (s.State == Error || s.State == Recovering) != !s.Cause.IsZero() {
		t.Fatalf("cause «%v» in %s", s.Cause, s.State)
	}
	if !s.Forced.IsZero() && s.State != Ready && s.State != NotReady && s.State != Error {
		t.Fatalf("forced in %s", s.State)
	}
	if s.State != before {
		switch {
		case before == Stopping && s.State != Ready && s.State != Error,
			before == Resetting && s.State != NotReady && s.State != Error:
			t.Fatalf("%s led to %s by «%v»", before, s.State, in)
		case s.State == Stopping || s.State == Resetting:
			m.finish = m.now + m.machine.Timeouts.ForCommand(s.Command)
		}
	}
	if (s.State == Stopping || s.State == Resetting) && m.now > m.finish {
		t.Fatalf("%s has not finished in time", s.State)
	}
}

// pass lets time pass; timers strike when they should.
func (m *model) pass(t *rapid.T, d time.Duration) {
	end := m.now + d
	for m.armed && m.at <= end {
		m.now = m.at
		m.armed = false
		m.feed(t, timeoutInput(m.seq))
	}
	m.now = end
}

func drawInput(t *rapid.T, s Status) input {
	why := Cause{What: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "what")}
	seq := s.Seq - rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(t, "stale")
	return rapid.SampledFrom([]input{
		commandInput(rapid.SampledFrom(Commands()).Draw(t, "command")),
		commandInput(rapid.SampledFrom(AllowedCommands(s.State)).Draw(t, "allowed")),
		doneInput(seq), doneInput(seq), failedInput(seq, why), timeoutInput(s.Seq - 1), faultInput(why),
		degradeInput(why), restoreInput(), includeInput(true), includeInput(false),
	}).Draw(t, "input")
}

// TestNeverStuck: whatever happens, every transition ends in time, Stop in Ready
// or Error, and from wherever that leads there is a way to Offline.
func TestNeverStuck(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{machine: machine{Component: "bu1", Timeouts: Timeouts{Stop: 3 * time.Second}}}
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			if rapid.IntRange(0, 3).Draw(rt, "time passes") == 0 {
				m.pass(rt, time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds"))*time.Second)
			} else {
				m.feed(rt, drawInput(rt, m.status))
			}
		}
		m.pass(rt, time.Hour)
		if m.status.State.IsTransitional() {
			rt.Fatalf("still in %s after an hour", m.status.State)
		}
		home := map[State]Command{
			Error:    Recover,
			Running:  Stop,
			Paused:   Stop,
			Ready:    Reset,
			NotReady: Unload,
		}
		for steps := 0; m.status.State != Offline; steps++ {
			if steps > len(home) {
				rt.Fatalf("no way home from %s", m.status.State)
			}
			m.feed(rt, commandInput(home[m.status.State]))
			m.feed(rt, doneInput(m.status.Seq))
		}
	})
}
