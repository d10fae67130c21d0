package fsm

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

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
	// CommandRefused: the command is forbidden in the state.
	CommandRefused Effect = iota
	// CommandAccepted: the target of the command is reached or under way, so there is nothing to do.
	CommandAccepted
	// TransitionBegun: the transition of the command begins.
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
