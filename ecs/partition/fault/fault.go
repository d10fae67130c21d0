package fault

import (
	"fmt"
	"time"
)

// A Fault is something that broke: who, what, and how that is known.
type Fault struct {
	Component string   `json:"component"`      // node or nodes, or what is between them
	Subsystem string   `json:"part,omitempty"` // of it, a stable word; empty: not known
	What      string   `json:"what"`
	Evidence  string   `json:"evidence"`
	Advice    string   `json:"advice,omitempty"`   // what to do, a sentence
	Followed  []string `json:"followed,omitempty"` // nodes that gave up for it, and are sound

	Trouble string    `json:"-"` // what kind of trouble the subsystem has, a word of package node; empty: no kind is known
	At      time.Time `json:"-"` // it was seen; zero where nobody noted it
}

// SeenByControl is a fault of a subsystem of a component, as the control has seen it.
func SeenByControl(component, subsystem, what string) Fault {
	return Fault{
		Component: component,
		Subsystem: subsystem,
		What:      what,
		Evidence:  "seen by the control",
	}
}

// A Cause is a fault in the words of a message.
type Cause interface {
	GetComponent() string
	GetPart() string
	GetWhat() string
	GetEvidence() string
}

// FromCause is the fault that a message tells.
func FromCause(c Cause) Fault {
	trouble := ""
	if t, ok := c.(interface{ GetTrouble() string }); ok { // that of a node; a record has the advice
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
	ProcessEndSeen  Kind = iota // whoever started its process saw it end
	ProcessVanished             // its process has ended: nobody listens any more where it did, or another one does
	SelfReported                // the component says so itself
	Disconnected                // the scheduler or a node has lost it, and goes on
	SilentToControl             // the control does not hear it
	ReportedByPeer              // a node has given up, and names it
)

// processEnded says that a process has ended.
func (k Kind) processEnded() bool { return k <= ProcessVanished }

// An Observation is what somebody has seen of a component.
type Observation struct {
	Fault
	Kind       Kind
	ReportedBy string // the node that says so; empty: the control or the scheduler
	LinkClosed bool   // the component has ended the link on purpose: it has given up itself
}

// closerThan says whether an observation is closer to the cause. Of two nodes that say so themselves, the one is not
// whose links are down: that followed from something.
func (x *Observation) closerThan(y *Observation) bool {
	if x.Kind == y.Kind {
		return y.Subsystem == subsystemLinks && x.Subsystem != subsystemLinks
	}
	return x.Kind < y.Kind
}

// Subsystems that only a control sees fail, and those that nodes name, too, and that a cause depends on.
const (
	SubsystemProcess     = "process"
	SubsystemNodeService = "node_service"
	SubsystemTransport   = "transport"
	subsystemLinks       = "links" // of a node that asks to be reset: another fault took them down
	SubsystemScheduler   = "scheduler"
	SubsystemCertificate = "certificate"
	SubsystemControl     = "control" // another control has taken over
	subsystemInput       = "input"
	subsystemOutput      = "output"
	SubsystemData        = "data"          // of a readout unit, which others have checked
	subsystemConfig      = "configuration" // every unit has the same
)
