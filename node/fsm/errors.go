package fsm

import (
	"errors"
	"fmt"
	"strings"

	"ringlet/internal/registry"
)

// ErrClosed says that the runner was closed: its component ends, so the request no longer matters.
var ErrClosed = errors.New("the component's state machine is closed")

// CauseKind says how a cause came to be known.
type CauseKind uint8

const (
	// CauseNone is no cause.
	CauseNone CauseKind = iota
	// CauseFailed was reported by the component.
	CauseFailed
	// CauseTimeout is a transition that did not end in time.
	CauseTimeout
	// CausePanic is an action function that panicked.
	CausePanic
	// CauseClosed is a link that the peer has closed on purpose: the peer itself has given up, and reports why.
	CauseClosed
)

// String returns a word for the kind.
func (k CauseKind) String() string {
	return registry.NameOf(k, "cause kind", "none", "failed", "timeout", "panic", "closed")
}

// Cause says why a component is in Error, degraded, or was forced: which component, what happened, and by which
// evidence, in words that a stranger can act on. The zero Cause is none. It is an error, so an action function may
// return one.
type Cause struct {
	Kind      CauseKind
	Component string // the component at fault: the name of a node or a unit
	Subsystem string // of the component that failed, a stable word; empty: not reported
	Trouble   string // kind of trouble of the subsystem, one of the words of this package; empty: not known
	What      string // what happened: "builder unit 2 is gone"
	Evidence  string // how it is known: "no ack for 3s, 14 writes open"
	State     State  // the state in which it happened
}

// IsZero reports whether there is no cause.
func (c Cause) IsZero() bool { return c == Cause{} }

func (c Cause) Error() string {
	if c.IsZero() {
		return "no cause"
	}
	s := fmt.Sprintf("%s in %s: %s", c.Component, c.State, c.What)
	if c.Evidence != "" {
		s += " (" + c.Evidence + ")"
	}
	return s
}

// withDefaults fills in the fields that the reporter left empty.
func (c Cause) withDefaults(component string, s State) Cause {
	if c.Kind == CauseNone {
		c.Kind = CauseFailed
	}
	if c.Component == "" {
		c.Component = component
	}
	if c.What == "" {
		c.What = "an unnamed fault"
	}
	c.State = s
	return c
}

// PreconditionError refuses a command that is forbidden in the present state.
type PreconditionError struct {
	Component string
	State     State
	Command   Command
	Allowed   []Command // the commands that the state allows
}

func (e *PreconditionError) Error() string {
	words := make([]string, len(e.Allowed))
	for i, c := range e.Allowed {
		words[i] = c.String()
	}
	return fmt.Sprintf("%s cannot %s in state %s, it takes %s there",
		e.Component, e.Command, e.State, strings.Join(words, ", "))
}

// staleError refuses the end, or the time-out, of a transition that is over: a later command or a fault has overtaken
// it. It is no fault.
type staleError struct {
	State State
	Input input
	Seq   uint64 // the last transition begun
}

func (e *staleError) Error() string {
	return fmt.Sprintf("«%s» is stale in state %s, the last transition is #%d", e.Input, e.State, e.Seq)
}

// SupersededError ends the wait for a command that another command interrupted.
type SupersededError struct {
	Component string
	Command   Command
	By        Command
}

func (e *SupersededError) Error() string {
	return fmt.Sprintf("%s: %s was interrupted by %s", e.Component, e.Command, e.By)
}

// stuckError says that an action function did not return after Close.
type stuckError struct {
	Component string
	Command   Command // zero: it was the function Abandon
}

func (e *stuckError) Error() string {
	what := "abandon"
	if e.Command != 0 {
		what = e.Command.String()
	}
	return fmt.Sprintf("%s: the function for %s does not return, though its context has ended", e.Component, what)
}
