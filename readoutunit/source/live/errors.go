package live

import "fmt"

// Fault is what is wrong with the number of a fragment.
type Fault uint8

// The faults. Gap is a report: the fragment is used. A fragment with any other fault is thrown away.
const (
	Gap       Fault = iota + 1 // numbers before it were left out by a source that keeps the order
	Repeat                     // the event has a fragment of this source
	Backwards                  // a lower number than the one before, from a source that keeps the order
	Late                       // the event was decided without it
	Jump                       // a number far ahead, and then an ordinary one
)

// Faults is how many values a Fault may have.
const Faults = int(Jump) + 1

var faultWords = [...]string{
	Gap:       "leaves out the numbers before it, up from",
	Repeat:    "came again",
	Backwards: "runs backwards; the source had come to",
	Late:      "came too late; events are decided up to",
	Jump:      "is far ahead of what came before and after it; the source is at",
}

// FragmentError says what is wrong with the number of one fragment, and of which source.
type FragmentError struct {
	Source string // as the input names it
	Event  uint64 // number of the fragment
	Fault  Fault
	At     uint64 // what Fault compares it with
}

func (e *FragmentError) Error() string {
	if e.Fault == Repeat {
		return fmt.Sprintf("source %s: the fragment of event %d came again; the first one stays", e.Source, e.Event)
	}
	word := fmt.Sprintf("has fault %d at", uint8(e.Fault))
	if int(e.Fault) < len(faultWords) && e.Fault > 0 {
		word = faultWords[e.Fault]
	}
	return fmt.Sprintf("source %s: the fragment of event %d %s %d", e.Source, e.Event, word, e.At)
}

// MissingError ends a run that may not go on without a fragment.
type MissingError struct {
	Source string
	Event  uint64
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("event %d has no fragment of source %s, and on-missing is stop: see to the front-end, "+
		"or let on-missing be mark", e.Event, e.Source)
}

// EndError ends the input of a readout unit: what was cut before is still to be built, and what was not is left with
// the front-ends. Err is a *MissingError, or why a source cannot go on.
type EndError struct{ Err error }

func (e *EndError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *EndError) Unwrap() error { return e.Err }
