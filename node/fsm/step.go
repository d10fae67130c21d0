package fsm

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is the whole memory of the machine. It is a value: copies never change. The zero Status is Offline, not
// included, without fault.
type Status struct {
	State    State
	Command  Command // of the transition under way; zero in a stable state
	Seq      uint64  // number of the last transition begun
	Change   uint64  // number of changes so far
	Included bool    // takes part in the partition
	Degraded Cause   // zero: not degraded; else the last reason
	Cause    Cause   // in Error and Recovering: what led to Error
	Forced   Cause   // the last transition was a Stop or Reset that went by force
	Faults   uint64  // faults since the component was loaded, also those after the first
}

// inputKind is the kind of an Input.
type inputKind uint8

// The kinds of input.
const (
	inputCommand inputKind = 1 + iota
	inputDone
	inputFailed
	inputTimeout
	inputProgress
	inputFault
	inputDegrade
	inputRestore
	inputInclude
	inputExclude
)

// input is an event for a component. Make it with commandInput, doneInput, failedInput, timeoutInput, progressInput,
// faultInput, degradeInput, restoreInput, includeInput.
type input struct {
	kind    inputKind
	command Command
	seq     uint64
	cause   Cause
}

// commandInput is a command of the run control.
func commandInput(c Command) input { return input{kind: inputCommand, command: c} }

// doneInput says that the work of transition seq is done.
func doneInput(seq uint64) input { return input{kind: inputDone, seq: seq} }

// failedInput says that the work of transition seq failed.
func failedInput(seq uint64, why Cause) input { return input{kind: inputFailed, seq: seq, cause: why} }

// timeoutInput says that the time-out armed for transition seq has expired.
func timeoutInput(seq uint64) input { return input{kind: inputTimeout, seq: seq} }

// progressInput says that the work of transition seq has made progress: its time-out begins again, so only a transition
// without progress for that long times out.
func progressInput(seq uint64) input { return input{kind: inputProgress, seq: seq} }

// faultInput says that something failed, whatever the component was doing.
func faultInput(why Cause) input { return input{kind: inputFault, cause: why} }

// degradeInput says that the component goes on without something that it should have.
func degradeInput(why Cause) input { return input{kind: inputDegrade, cause: why} }

// restoreInput says that the component has everything again.
func restoreInput() input { return input{kind: inputRestore} }

// includeInput says whether the component takes part in the partition.
func includeInput(in bool) input {
	if in {
		return input{kind: inputInclude}
	}
	return input{kind: inputExclude}
}

// String is the input as a transcript shows it.
func (in input) String() string {
	switch in.kind {
	case inputCommand:
		return in.command.String()
	case inputDone:
		return fmt.Sprintf("done #%d", in.seq)
	case inputFailed:
		return fmt.Sprintf("failed #%d: %s", in.seq, in.cause.What)
	case inputTimeout:
		return fmt.Sprintf("timeout #%d", in.seq)
	case inputProgress:
		return fmt.Sprintf("moved #%d", in.seq)
	case inputFault:
		return "fault: " + in.cause.What
	case inputDegrade:
		return "degraded: " + in.cause.What
	case inputRestore:
		return "restored"
	case inputInclude:
		return "included"
	case inputExclude:
		return "excluded"
	}
	return "no input"
}

// actionKind is the kind of an action.
type actionKind uint8

const (
	// actionDisarm: disarm the timer.
	actionDisarm actionKind = 1 + iota
	// actionAbandon: give up the work under way, and drop at once everything that the component was doing in state From.
	// It is never answered.
	actionAbandon
	// actionRunCommand: do the work of Command, after giving up the work under way, if any; answer with doneInput or
	// failedInput of Seq.
	actionRunCommand
	// actionArm: arm the timer; after After, pass timeoutInput(Seq).
	actionArm
	// actionPublish: publish the new status.
	actionPublish
)

// action is something that the shell must carry out.
type action struct {
	Kind    actionKind
	Command Command       // of actionRunCommand
	Seq     uint64        // of actionRunCommand and actionArm
	After   time.Duration // of actionArm
	From    State         // of actionAbandon
	Why     Cause         // of actionAbandon
}

// String is the action as a transcript shows it.
func (a action) String() string {
	switch a.Kind {
	case actionDisarm:
		return "disarm"
	case actionAbandon:
		return fmt.Sprintf("abandon %s", a.From)
	case actionRunCommand:
		return fmt.Sprintf("do %s #%d", a.Command, a.Seq)
	case actionArm:
		return fmt.Sprintf("arm %v #%d", a.After, a.Seq)
	case actionPublish:
		return "publish"
	}
	return "no action"
}

// machine has the parameters of a component's state machine. It is immutable.
type machine struct {
	Component string   // the name in causes and errors
	Timeouts  Timeouts // nil: the defaults of the table
}

// step is machine.step of a nameless component with the default time-outs.
func step(s Status, in input) (Status, []action, error) {
	return machine{Component: "component"}.step(s, in)
}

// step applies one input. Errors, with the status unchanged and no actions: *PreconditionError for a forbidden command,
// *staleError for the end or time-out of a transition that is over.
func (m machine) step(s Status, in input) (Status, []action, error) {
	switch in.kind {
	case inputCommand:
		return m.handleCommand(s, in.command)
	case inputDone, inputFailed, inputTimeout, inputProgress:
		t, ok := transitionVia(s.State)
		if !ok || in.seq != s.Seq {
			return s, nil, &staleError{State: s.State, Input: in, Seq: s.Seq}
		}
		if in.kind == inputProgress {
			return s, []action{{Kind: actionDisarm}, {Kind: actionArm, Seq: s.Seq, After: m.Timeouts.ForCommand(t.Command)}}, nil
		}
		next, actions := m.finishTransition(s, t, in)
		return next, actions, nil
	case inputFault:
		next, actions := m.enterError(s, in.cause)
		return next, actions, nil
	}
	next, actions := m.setFlags(s, in)
	return next, actions, nil
}

// handleCommand begins a transition, accepts the command or refuses it.
func (m machine) handleCommand(s Status, c Command) (Status, []action, error) {
	switch EffectOf(s.State, c) {
	case CommandAccepted:
		return s, nil, nil
	case CommandRefused:
		return s, nil, &PreconditionError{
			Component: m.Component,
			State:     s.State,
			Command:   c,
			Allowed:   AllowedCommands(s.State),
		}
	case TransitionBegun:
	}
	t, _ := transitionOf(c)
	var actions []action
	if s.State.IsTransitional() {
		actions = append(actions, action{Kind: actionDisarm})
	}
	s.State, s.Command = t.Via, c
	s.Seq++
	s.Change++
	s.Forced = Cause{}
	return s, append(actions,
		action{Kind: actionRunCommand, Command: c, Seq: s.Seq},
		action{Kind: actionArm, Seq: s.Seq, After: m.Timeouts.ForCommand(c)},
		action{Kind: actionPublish}), nil
}

// finishTransition ends the transition t, which is under way.
func (m machine) finishTransition(s Status, t Transition, in input) (Status, []action) {
	switch in.kind {
	case inputDone:
		return m.enterTarget(s, t), []action{{Kind: actionDisarm}, {Kind: actionPublish}}
	case inputFailed:
		return m.enterError(s, in.cause)
	}
	why := Cause{
		Kind: CauseTimeout, What: fmt.Sprintf("%s did not end in time", t.Command),
		Evidence: fmt.Sprintf("its time-out is %v", m.Timeouts.ForCommand(t.Command)),
	}.withDefaults(m.Component, s.State)
	if !t.Forced {
		return m.enterError(s, why)
	}
	actions := []action{{Kind: actionDisarm}, {Kind: actionAbandon, From: s.State, Why: why}, {Kind: actionPublish}}
	s = m.enterTarget(s, t)
	s.Forced = why
	return s, actions
}

// enterTarget sets the target state of t. In NotReady or Offline the component begins anew, without Error and
// degradation.
func (m machine) enterTarget(s Status, t Transition) Status {
	s.State, s.Command = t.To, 0
	s.Change++
	if t.To == NotReady || t.To == Offline {
		s.Cause, s.Degraded = Cause{}, Cause{}
	}
	if t.Command == Load {
		s.Faults = 0
	}
	return s
}

// enterError leads to Error. The first cause stays: later faults are mostly its consequences, and are only counted.
func (m machine) enterError(s Status, why Cause) (Status, []action) {
	s.Faults++
	s.Change++
	if s.State == Error {
		return s, []action{{Kind: actionPublish}}
	}
	var actions []action
	if s.State.IsTransitional() {
		actions = append(actions, action{Kind: actionDisarm})
	}
	why = why.withDefaults(m.Component, s.State)
	actions = append(actions, action{Kind: actionAbandon, From: s.State, Why: why}, action{Kind: actionPublish})
	s.State, s.Command, s.Cause = Error, 0, why
	return s, actions
}

// setFlags sets and clears the flags beside the state.
func (m machine) setFlags(s Status, in input) (Status, []action) {
	before := s
	switch in.kind {
	case inputDegrade:
		s.Degraded = in.cause.withDefaults(m.Component, s.State)
	case inputRestore:
		s.Degraded = Cause{}
	case inputInclude:
		s.Included = true
	case inputExclude:
		s.Included = false
	}
	if s == before {
		return s, nil
	}
	s.Change++
	return s, []action{{Kind: actionPublish}}
}

// Transition is a row of the table: Command takes the component from one of From through Via to To.
type Transition struct {
	Command Command
	From    []State
	Via     State
	To      State
	Timeout time.Duration // default; see Timeouts
	Forced  bool          // on time-out the component goes to To by force; else to Error
}

// transitions is the whole machine. The time-outs are long enough for a busy machine, and short enough that, if a node
// dies (the link notices that within seconds), the run stops on all other nodes within the 10 s in which it must end;
// stop gets half of that. Load and configure may pin and prefault GiBs of slots (about 1 s per GiB on a VM of two
// cores), and configure also connects.
var transitions = [...]Transition{
	{Load, []State{Offline}, Loading, NotReady, 10 * time.Second, false},
	{Configure, []State{NotReady}, Configuring, Ready, 30 * time.Second, false},
	{Start, []State{Ready}, Starting, Running, 10 * time.Second, false},
	{Pause, []State{Running}, Pausing, Paused, 5 * time.Second, false},
	{Resume, []State{Paused}, Resuming, Running, 5 * time.Second, false},
	{Stop, []State{Running, Paused, Starting, Pausing, Resuming}, Stopping, Ready, 5 * time.Second, true},
	{Reset, []State{Ready}, Resetting, NotReady, 5 * time.Second, true},
	{Unload, []State{NotReady}, Unloading, Offline, 5 * time.Second, false},
	{Recover, []State{Error}, Recovering, NotReady, 10 * time.Second, false},
}

// Transitions returns a copy of the table, one row per command.
func Transitions() []Transition {
	list := slices.Clone(transitions[:])
	for i := range list {
		list[i].From = slices.Clone(list[i].From)
	}
	return list
}

// transitionOf returns the row of a command.
func transitionOf(c Command) (Transition, bool) {
	if c < Load || c >= numCommands {
		return Transition{}, false
	}
	return transitions[c-Load], true
}

// transitionVia returns the row that leads through an in-between state.
func transitionVia(via State) (Transition, bool) {
	for _, t := range transitions {
		if t.Via == via {
			return t, true
		}
	}
	return Transition{}, false
}

// target is the stable state that s is or leads to.
func (s State) target() State {
	if t, ok := transitionVia(s); ok {
		return t.To
	}
	return s
}

// Effect is what a command does in a state.
type Effect uint8

const (
	// CommandRefused means: the command is forbidden in the state.
	CommandRefused Effect = iota
	// CommandAccepted means: the target of the command is reached or under way, so there is nothing to do.
	CommandAccepted
	// TransitionBegun means: the transition of the command begins.
	TransitionBegun
)

// EffectOf returns what a command does in a state.
func EffectOf(s State, c Command) Effect {
	t, ok := transitionOf(c)
	switch {
	case !ok || s >= numStates:
		return CommandRefused
	case slices.Contains(t.From, s):
		return TransitionBegun
	case s.target() == t.To:
		return CommandAccepted
	}
	return CommandRefused
}

// AllowedCommands returns the commands that are not refused in a state.
func AllowedCommands(s State) []Command {
	return slices.DeleteFunc(Commands(), func(c Command) bool { return EffectOf(s, c) == CommandRefused })
}

// Timeouts are the time-outs by command; a command without a positive time-out has the default of the table.
type Timeouts map[Command]time.Duration

// ForCommand returns the time-out in effect for a command.
func (t Timeouts) ForCommand(c Command) time.Duration {
	if d := t[c]; d > 0 {
		return d
	}
	row, _ := transitionOf(c)
	return row.Timeout
}

// WithMinimum returns t with at least d for every command; 0 changes nothing.
func (t Timeouts) WithMinimum(d time.Duration) Timeouts {
	out := make(Timeouts, len(transitions))
	for _, c := range Commands() {
		out[c] = max(t.ForCommand(c), d)
	}
	return out
}

// markdown prints the table of transitions and the effect of every command in every state, as in
// docs/design/004-component-states.md.
func markdown() string { return Timeouts(nil).Markdown() }

// Markdown prints that table with the time-outs t.
func (t Timeouts) Markdown() string {
	var b strings.Builder
	b.WriteString("| command | from | through | to | time-out | when it strikes |\n|---|---|---|---|---|---|\n")
	for _, row := range transitions {
		names := make([]string, len(row.From))
		for i, s := range row.From {
			names[i] = s.String()
		}
		then := "Error"
		if row.Forced {
			then = row.To.String() + ", by force"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %v | %s |\n",
			row.Command, strings.Join(names, ", "), row.Via, row.To, t.ForCommand(row.Command), then)
	}
	b.WriteString("\n| |")
	for _, c := range Commands() {
		fmt.Fprintf(&b, " %s |", c)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Commands())) + "\n")
	for _, s := range States() {
		fmt.Fprintf(&b, "| %s |", s)
		for _, c := range Commands() {
			b.WriteString(" " + markdownCell(s, c) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func markdownCell(s State, c Command) string {
	switch EffectOf(s, c) {
	case TransitionBegun:
		t, _ := transitionOf(c)
		return "→ " + t.Via.String()
	case CommandAccepted:
		return "ok"
	case CommandRefused:
	}
	return "–"
}
