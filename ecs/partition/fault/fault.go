package fault

import (
	"fmt"
	"time"
)

// A Fault is something that broke: who, what, and how that is known.
type Fault struct {
	Component string   `json:"component"`      // node or nodes, or what is between them
	Part      string   `json:"part,omitempty"` // of it, a stable word; empty: not known
	What      string   `json:"what"`
	Evidence  string   `json:"evidence"`
	Advice    string   `json:"advice,omitempty"`   // what to do, a sentence
	Followed  []string `json:"followed,omitempty"` // nodes that gave up for it, and are sound

	Trouble string    `json:"-"` // what kind of trouble the part has, a word of package node; empty: no kind is known
	At      time.Time `json:"-"` // it was seen; zero where nobody noted it
}

// Seen is a fault of a part of a component, as the control has seen it.
func Seen(component, part, what string) Fault {
	return Fault{
		Component: component,
		Part:      part,
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

// Told is the fault that a message tells.
func Told(c Cause) Fault {
	trouble := ""
	if t, ok := c.(interface{ GetTrouble() string }); ok { // that of a node; a record has the advice
		trouble = t.GetTrouble()
	}
	return Fault{
		Trouble:   trouble,
		Component: c.GetComponent(),
		Part:      c.GetPart(),
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
	Ended    Kind = iota // whoever started its process saw it end
	Vanished             // its process has ended: nobody listens any more where it did, or another one does
	Own                  // the component says so itself
	Cut                  // the scheduler or a node has lost it, and goes on
	Missing              // the control does not hear it
	Blamed               // a node has given up, and names it
)

// over says that a process has ended.
func (k Kind) over() bool { return k <= Vanished }

// A Sight is what somebody has seen of a component.
type Sight struct {
	Fault
	Kind   Kind
	By     string // the node that says so; empty: the control or the scheduler
	Closed bool   // the component has ended the link on purpose: it has given up itself
}

// closer says whether a sight is closer to the cause. Of two nodes that say so themselves, the one is not whose links
// are down: that followed from something.
func (x *Sight) closer(y *Sight) bool {
	if x.Kind == y.Kind {
		return y.Part == partLinks && x.Part != partLinks
	}
	return x.Kind < y.Kind
}

// Parts that only a control sees fail, and those that nodes name, too, and that a cause depends on.
const (
	PartProcess     = "process"
	PartService     = "node_service"
	PartTransport   = "transport"
	partLinks       = "links" // of a node that asks to be reset: another fault took them down
	PartScheduler   = "scheduler"
	PartCertificate = "certificate"
	PartFenced      = "control" // another control has taken over
	partInput       = "input"
	partOutput      = "output"
	PartData        = "data"          // of a readout unit, which others have checked
	partConfig      = "configuration" // every unit has the same
)
