package fault

import (
	"fmt"
	"time"
)

// A Fault is a component that broke, what happened to it, and how that is known.
type Fault struct {
	Component string   `json:"component"`      // a node, several nodes, or the link between two
	Subsystem string   `json:"part,omitempty"` // the part of the component that failed, a stable word; empty: not known
	What      string   `json:"what"`
	Evidence  string   `json:"evidence"`
	Advice    string   `json:"advice,omitempty"`   // what to do, a sentence
	Followed  []string `json:"followed,omitempty"` // nodes that gave up because of it, and are sound

	Trouble string    `json:"-"` // kind of trouble of the subsystem, a Trouble constant of node/fsm; empty: not known
	At      time.Time `json:"-"` // when it was observed; zero: not noted
}

// SeenByControl is a fault that the control itself has observed.
func SeenByControl(component, subsystem, what string) Fault {
	return Fault{
		Component: component,
		Subsystem: subsystem,
		What:      what,
		Evidence:  "seen by the control",
	}
}

// A Cause is a message with a fault: of a node or of a run's record.
type Cause interface {
	GetComponent() string
	GetPart() string
	GetWhat() string
	GetEvidence() string
}

// FromCause is the fault in a message.
func FromCause(c Cause) Fault {
	trouble := ""
	if t, ok := c.(interface{ GetTrouble() string }); ok { // a record has the advice instead
		trouble = t.GetTrouble()
	}
	return Fault{
		Trouble:   trouble,
		Component: c.GetComponent(),
		Subsystem: c.GetPart(),
		What:      c.GetWhat(),
		Evidence:  c.GetEvidence(),
	}
}

// An Error is a fault that ends a run, or keeps one from beginning.
type Error struct{ Fault }

func (e *Error) Error() string {
	if e.Evidence == "" {
		return fmt.Sprintf("%s: %s", e.Component, e.What)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Component, e.What, e.Evidence)
}

// Kind is how a fault is known: the closer to its cause, the smaller.
type Kind uint8

// Kinds, the closest to the cause first.
const (
	ProcessEndSeen  Kind = iota // the control started its process and saw it end
	ProcessVanished             // its process has ended: no process, or another one, listens at its address
	ProcessStopped              // its process exists, and the kernel does not let it run: SIGSTOP, a debugger
	SelfReported                // the component reports its own fault
	Disconnected                // the scheduler or a node has lost its link or session to it, and goes on
	SilentToControl             // the control gets no reports of it
	ReportedByPeer              // a node has given the run up, and names it as the reason
)

// processEnded says that an observation of this kind shows the end of a process.
func (k Kind) processEnded() bool { return k <= ProcessVanished }

// An Observation is what the control, the scheduler or a node has seen of a component.
type Observation struct {
	Fault
	Kind       Kind
	ReportedBy string // the node that reports it; empty: the control or the scheduler
	Scheduler  bool   // the scheduler reports it: its node has lost the session
	LinkClosed bool   // the component closed the link on purpose, since it gave up itself
}

// closerThan says whether x is closer to the cause than y. Of two nodes that report faults of their own, one whose
// links are down is further away: another fault took them down.
func (x *Observation) closerThan(y *Observation) bool {
	if x.Kind == y.Kind {
		return y.Subsystem == subsystemLinks && x.Subsystem != subsystemLinks
	}
	return x.Kind < y.Kind
}

// Subsystems of a component. Nodes report others, too, by the words of package node.
const (
	SubsystemProcess     = "process"
	SubsystemNodeService = "node_service"
	SubsystemTransport   = "transport"
	subsystemLinks       = "links" // a node asks to be reset: another fault took its links down
	SubsystemScheduler   = "scheduler"
	SubsystemCertificate = "certificate"
	SubsystemControl     = "control" // another control has taken over
	subsystemInput       = "input"
	subsystemOutput      = "output"
	SubsystemData        = "data"          // bad data of a readout unit, found by other nodes
	subsystemConfig      = "configuration" // every unit has the same one
)
