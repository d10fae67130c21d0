package live

import (
	"fmt"
	"strings"
	"time"
)

// OnMissing says what becomes of an event to which a source gave no fragment in time.
type OnMissing uint8

const (
	// MarkMissing builds the event; the fragment's place says that it is missing.
	MarkMissing OnMissing = iota
	// WaitForMissing waits for the fragment for as long as it can still come.
	WaitForMissing
	// StopAtMissing ends the run.
	StopAtMissing
)

var onMissingNames = [...]string{MarkMissing: "mark", WaitForMissing: "wait", StopAtMissing: "stop"}

func (o OnMissing) String() string {
	if int(o) < len(onMissingNames) {
		return onMissingNames[o]
	}
	return fmt.Sprintf("onmissing(%d)", uint8(o))
}

// ParseOnMissing returns the choice named s: mark, wait or stop.
func ParseOnMissing(s string) (OnMissing, error) {
	for i, n := range onMissingNames {
		if s == n {
			return OnMissing(i), nil
		}
	}
	return 0, fmt.Errorf("what to do about a missing fragment is %s, not %q", strings.Join(onMissingNames[:], " or "), s)
}

// Rules say when a Matcher gives a fragment up, and when it wants what it has to be built.
type Rules struct {
	FragmentTimeout      time.Duration // how long an event waits for a fragment
	FirstFragmentTimeout time.Duration // the same for a source that has not given any yet; no less than Timeout
	FlushAfter           time.Duration // how long an event waits for a MEP to be full
	OnMissing            OnMissing
	Packing              int // the most events of a MEP
	Window               int // events that are kept at a time, a power of two
	MaxMEPBytes          int // bytes of fragments, padding included, that a MEP of this readout unit may have
	AlignLog2            uint8
	// how far a number may be from the one before it, or from a suspect one, to be near; 0: defaultMaxLeap
	MaxLeap uint64
}

// defaultMaxLeap is MaxLeap where nothing else is said.
const defaultMaxLeap = 1_000_000

// Reach is how far the data of a readout unit go. Numbers are of events; each only grows.
type Reach struct {
	FirstUncut    uint64 // the first event behind the last cut that any source has a fragment of; To if there is none
	CompleteBelow uint64 // of every event below, each fragment is there or given up
	FlushBelow    uint64 // events below have waited long enough for a MEP to be full
	OverdueBelow  uint64 // events below have waited as long as an event may, whatever others have of them
	InputOver     bool   // no source will give anything beyond To
}

// Cut is which events a MEP has.
type Cut struct {
	First  uint64
	Events uint32
}

// End is the number behind the last event.
func (c Cut) End() uint64 { return c.First + min(uint64(c.Events), NoEvent-min(c.First, NoEvent)) }
