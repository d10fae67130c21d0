package fsm

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/testkit/transcript"
)

// effects is the machine drawn by hand. Commands in the order load configure
// start pause resume stop reset unload recover: B begins, o accepted, - refused.
var effects = map[State]string{
	Offline:     "B------o-",
	Loading:     "o-----o-o",
	NotReady:    "oB----oBo",
	Configuring: "-o---o---",
	Ready:       "-oB--oB--",
	Starting:    "--o-oB---",
	Running:     "--oBoB---",
	Pausing:     "---o-B---",
	Paused:      "---oBB---",
	Resuming:    "--o-oB---",
	Stopping:    "-o---o---",
	Resetting:   "o-----o-o",
	Unloading:   "-------o-",
	Error:       "--------B",
	Recovering:  "o-----o-o",
}

func TestEveryStateTakesEveryCommand(t *testing.T) {
	if len(effects) != len(States()) {
		t.Fatalf("%d states in the table, %d in the machine", len(effects), len(States()))
	}
	for state, want := range effects {
		for i, c := range Commands() {
			before := Status{State: state, Seq: 7}
			after, actions, err := step(before, commandInput(c))
			got := 'o'
			var refused *PreconditionError
			switch {
			case errors.As(err, &refused):
				got = '-'
				if refused.State != state || refused.Command != c || slices.Contains(refused.Allowed, c) {
					t.Errorf("%s in %s: %v", c, state, err)
				}
			case len(actions) > 0:
				got = 'B'
				if row, _ := transitionOf(c); after.State != row.Via || after.Command != c || after.Seq != 8 {
					t.Errorf("%s in %s begins %+v", c, state, after)
				}
			}
			if got != rune(want[i]) {
				t.Errorf("%s in %s: %c, want %c (%v)", c, state, got, want[i], err)
			}
			if got != 'B' && after != before {
				t.Errorf("%s in %s changes %+v to %+v", c, state, before, after)
			}
		}
	}
}

// TestTransitions holds each row against the line in the architecture.
func TestTransitions(t *testing.T) {
	type row struct {
		from, to State
		forced   bool
	}
	want := map[Command]row{
		Load:      {Offline, NotReady, false},
		Configure: {NotReady, Ready, false},
		Start:     {Ready, Running, false},
		Pause:     {Running, Paused, false},
		Resume:    {Paused, Running, false},
		Stop:      {Running, Ready, true},
		Reset:     {Ready, NotReady, true},
		Unload:    {NotReady, Offline, false},
		Recover:   {Error, NotReady, false},
	}
	via := make(map[State]bool)
	for i, r := range Transitions() {
		if r.Command != Commands()[i] || r.From[0] != want[r.Command].from || r.To != want[r.Command].to ||
			r.Forced != want[r.Command].forced || r.Timeout <= 0 || !r.Via.IsTransitional() || via[r.Via] {
			t.Errorf("row %+v", r)
		}
		via[r.Via] = true
	}
	if len(via) != len(States())-int(Error)-1 {
		t.Errorf("%d in-between states are used", len(via))
	}
	Transitions()[0].From[0] = Error
	if EffectOf(Offline, Load) != TransitionBegun {
		t.Error("the table can be changed from outside")
	}
}

// TestAnyStateFails: a fault leads to Error from everywhere, with its cause.
func TestAnyStateFails(t *testing.T) {
	for _, s := range States() {
		after, actions, err := step(Status{State: s}, faultInput(Cause{What: "fire"}))
		if err != nil || after.State != Error || after.Command != 0 || after.Faults != 1 {
			t.Errorf("in %s: %+v, %v", s, after, err)
		}
		if s == Error {
			continue
		}
		if want := (Cause{
			Kind:      CauseFailed,
			Component: "component",
			What:      "fire",
			Evidence:  "",
			State:     s,
		}); after.Cause != want {
			t.Errorf("in %s: cause %+v", s, after.Cause)
		}
		if !slices.ContainsFunc(actions, func(a action) bool { return a.Kind == actionAbandon && a.From == s }) {
			t.Errorf("in %s nothing is abandoned: %v", s, actions)
		}
	}
}

// TestLoadForgetsFaults: the count is that of this life of the component.
func TestLoadForgetsFaults(t *testing.T) {
	s := Status{State: Ready}
	for _, in := range []input{faultInput(Cause{}), faultInput(Cause{}), commandInput(Recover), doneInput(1),
		commandInput(Unload), doneInput(2)} {
		s, _, _ = step(s, in)
	}
	if s.State != Offline || s.Faults != 2 {
		t.Errorf("%+v", s)
	}
	s, _, _ = step(s, commandInput(Load))
	s, _, _ = step(s, doneInput(3))
	if s.State != NotReady || s.Faults != 0 {
		t.Errorf("loaded anew: %+v", s)
	}
}

func TestOwnTimeouts(t *testing.T) {
	m := machine{Component: "ru3", Timeouts: Timeouts{Stop: 1, Reset: -1}}
	for _, c := range Commands() {
		row, _ := transitionOf(c)
		want := row.Timeout
		if c == Stop {
			want = 1
		}
		_, actions, _ := m.step(Status{State: row.From[0]}, commandInput(c))
		if !slices.ContainsFunc(actions, func(a action) bool { return a.Kind == actionArm && a.After == want }) {
			t.Errorf("%s: %v, want %v", c, actions, want)
		}
	}
}

func TestTimeoutsAtLeast(t *testing.T) {
	timeouts := Timeouts{Stop: 7 * time.Minute}
	for _, c := range Commands() {
		row, _ := transitionOf(c)
		if got := timeouts.WithMinimum(0).ForCommand(c); got != timeouts.ForCommand(c) {
			t.Errorf("%s has %v, and %v before", c, got, timeouts.ForCommand(c))
		}
		if got, want := timeouts.WithMinimum(15*time.Second).ForCommand(c), max(timeouts.ForCommand(c), 15*time.Second,
			row.Timeout); got != want {
			t.Errorf("%s has %v, want %v", c, got, want)
		}
	}
}

func TestErrorsSpeak(t *testing.T) {
	for want, err := range map[string]error{
		"bu2 cannot pause in state Ready, it takes configure, start, stop, reset there": &PreconditionError{"bu2", Ready,
			Pause, AllowedCommands(Ready)},
		"«done #3» is stale in state Ready, the last transition is #4":                &staleError{Ready, doneInput(3), 4},
		"bu2: start was interrupted by stop":                                          &SupersededError{"bu2", Start, Stop},
		"bu2: the function for stop does not return, though its context has ended":    &stuckError{"bu2", Stop},
		"bu2: the function for abandon does not return, though its context has ended": &stuckError{"bu2", 0},
		"bu2 in Running: disk full (write: ENOSPC)": Cause{
			Kind:      CauseFailed,
			Component: "bu2",
			What:      "disk full",
			Evidence:  "write: ENOSPC",
			State:     Running,
		},
		"no cause":                               Cause{},
		"component in Loading: an unnamed fault": Cause{}.withDefaults("component", Loading),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestNamesComeBack(t *testing.T) {
	for _, s := range States() {
		text, err := s.MarshalText()
		var back State
		if err != nil || back.UnmarshalText(text) != nil || back != s {
			t.Errorf("state %s comes back as %s", s, back)
		}
	}
	for _, c := range append(Commands(), 0) {
		text, err := c.MarshalText()
		back := Command(99)
		if err != nil || back.UnmarshalText(text) != nil || back != c {
			t.Errorf("command %s comes back as %s", c, back)
		}
	}
	for _, name := range []string{"", "ready", "none", "Load"} {
		if _, err := ParseState(name); err == nil {
			t.Errorf("%q is a state", name)
		}
		if _, err := ParseCommand(name); err == nil {
			t.Errorf("%q is a command", name)
		}
	}
	_, stateErr := numStates.MarshalText()
	_, commandErr := numCommands.MarshalText()
	if stateErr == nil || commandErr == nil || EffectOf(numStates, Load) != CommandRefused ||
		EffectOf(Ready, 0) != CommandRefused {
		t.Error("there is a state or a command too many")
	}
}

// TestDocumentShowsTheTable: the design note holds what the code prints.
func TestDocumentShowsTheTable(t *testing.T) {
	const file = "../../docs/design/004-component-states.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table: go test ./node/fsm -update -->\n", "<!-- end of table -->\n"
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	transcript.Expect(t, file, head+begin+markdown()+end+tail)
}
