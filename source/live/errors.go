package live

import "fmt"

// Fault is what is wrong with the number of a fragment.
type Fault uint8

// The faults. FaultGap is only reported: its fragment is used. A fragment with any other fault is thrown away.
const (
	FaultGap       Fault = iota + 1 // a source that keeps the order left out the numbers before it
	FaultRepeat                     // the event has a fragment of this source already
	FaultBackwards                  // a lower number than the one before, from a source that keeps the order
	FaultLate                       // the event was decided without it
	FaultJump                       // a number that no number before, after or beside it confirms
)

// FaultCount is how many values a Fault may have.
const FaultCount = int(FaultJump) + 1

var faultWords = [...]string{
	FaultGap:       "leaves out the numbers before it, up from",
	FaultRepeat:    "came again",
	FaultBackwards: "runs backwards; the source had come to",
	FaultLate:      "came too late; events are decided up to",
	FaultJump:      "is far from what came before and after it; the source is at",
}

// FragmentError says what is wrong with the number of one fragment of a source.
type FragmentError struct {
	Source      string // as the input names it
	Event       uint64 // number of the fragment
	Fault       Fault
	Reference   uint64 // the number that Fault compares it with
	CounterBits uint8  // not 0: the numbers look like a counter of this many bits that wrapped around
	GuessedBits uint8  // not 0: the source has a counter of this many bits, and its lap is guessed
	Lacks       string // not "": what the fragment lacks by which the source's events are matched
	WideBits    uint8  // not 0: the source has a counter of this many bits, and the number has more
	// Off is how far the fragment's time is from the nearest tick of the clock by which events are matched, if that is
	// more than Window, in ns; else 0.
	Off, Window uint64
}

func (e *FragmentError) Error() string {
	if e.Fault == FaultRepeat {
		return fmt.Sprintf("source %s: the fragment of event %d came again; the first one stays", e.Source, e.Event)
	}
	if e.Lacks != "" {
		return fmt.Sprintf("source %s: the fragment of event %d has no %s, by which the input matches events: let the "+
			"front-end send it, or leave number out", e.Source, e.Event, e.Lacks)
	}
	if e.Off > 0 {
		return fmt.Sprintf("source %s: the fragment of event %d is %d ns from the nearest tick of the clock, and the "+
			"input's window is %d ns: correct delay of the input, or give it a wider window", e.Source, e.Event, e.Off, e.Window)
	}
	if e.WideBits > 0 {
		return fmt.Sprintf("source %s: a fragment has the number %d, which a counter of %d bits cannot show: correct wrap "+
			"of the input, or leave it out", e.Source, e.Event, e.WideBits)
	}
	word := fmt.Sprintf("has fault %d at", uint8(e.Fault))
	if int(e.Fault) < len(faultWords) && e.Fault > 0 {
		word = faultWords[e.Fault]
	}
	text := fmt.Sprintf("source %s: the fragment of event %d %s %d", e.Source, e.Event, word, e.Reference)
	if e.CounterBits > 0 {
		text += fmt.Sprintf("; this looks like a counter of %d bits that began anew at 0: put ?wrap=%d behind the "+
			"address of the input, or let the front-end count in 64 bits, adding %d each time", e.CounterBits, e.CounterBits,
			uint64(1)<<e.CounterBits)
	}
	if e.GuessedBits > 0 {
		text += fmt.Sprintf("; a counter of %d bits cannot show how much it lost: the number that is nearest to the run is "+
			"taken, and nothing proves it", e.GuessedBits)
	}
	return text
}

// counterBits returns how many bits a counter has that went from last to e by wrapping around; 0 if it does not look
// like one.
func counterBits(last, e uint64) uint8 {
	for _, bits := range []uint8{8, 12, 15, 16, 24, 31, 32, 48} {
		most, margin := uint64(1)<<bits, min(uint64(1)<<bits/16, 1024)
		if last < most && last >= most-margin && e < margin {
			return bits
		}
	}
	return 0
}

// MissingError ends a run with StopAtMissing, since an event has no fragment of a source.
type MissingError struct {
	Source string
	Event  uint64
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("event %d has no fragment of source %s, and on-missing is stop: repair the front-end, "+
		"or let on-missing be mark", e.Event, e.Source)
}

// EndError ends the input of a readout unit: the cuts made before are still built, and the fragments of later events
// stay with the front-ends. Err is a *MissingError, or why a source cannot go on.
type EndError struct{ Err error }

func (e *EndError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *EndError) Unwrap() error { return e.Err }
