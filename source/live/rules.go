package live

import (
	"fmt"
	"strings"
	"time"
)

// OnMissing says what happens to an event for which a source gave no fragment in time.
type OnMissing uint8

const (
	// MarkMissing builds the event, with the bank type FragmentMissing in place of the fragment.
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

// Rules say when a Matcher gives a fragment up, and when it wants the events that it has to be built.
type Rules struct {
	FragmentTimeout      time.Duration // how long an event waits for a fragment
	FirstFragmentTimeout time.Duration // the same for a source that has given none yet; no less than FragmentTimeout
	FlushAfter           time.Duration // how long an event waits for its MEP to fill up
	OnMissing            OnMissing
	Packing              int // the most events of a MEP
	Window               int // events that are kept at a time, a power of two
	MaxMEPBytes          int // bytes of fragments, padding included, that a MEP of this readout unit may have
	AlignLog2            uint8
	// numbers at most so far from the number before, or from a suspect one, are near it; 0: defaultMaxLeap
	MaxLeap uint64
}

// defaultMaxLeap is MaxLeap if the configuration gives none.
const defaultMaxLeap = 1_000_000

// Reach is how far the data of a readout unit have come. The fields but InputOver are event numbers, and only grow.
type Reach struct {
	FirstUncut    uint64 // the first event after the last cut that any source has; CompleteBelow if there is none
	CompleteBelow uint64 // of every event below, each fragment is there or given up
	FlushBelow    uint64 // events below have waited for their MEP to fill up for long enough
	OverdueBelow  uint64 // events below have waited for as long as an event may, whatever other readout units have
	InputOver     bool   // no source will give anything beyond CompleteBelow
}

// Cut says which events a MEP has.
type Cut struct {
	First  uint64
	Events uint32
}

// End returns the number after the last event.
func (c Cut) End() uint64 { return c.First + min(uint64(c.Events), NoEvent-min(c.First, NoEvent)) }
