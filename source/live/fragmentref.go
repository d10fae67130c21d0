package live

import (
	"math"
	"time"

	"ringlet/event"
)

// NoEvent is not the number of any event.
const NoEvent = event.EndOfRun

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// FragmentRef describes a fragment to the Matcher.
type FragmentRef struct {
	Event uint64
	Ref   uint64 // by which the caller finds the bytes
	Size  uint32 // bytes
	Type  event.BankType
}

// OfferResult says what Offer did with a fragment.
type OfferResult uint8

// The results of an offer.
const (
	OfferKept   OfferResult = iota // the Matcher owns it until TakeDropped returns it
	OfferThrown                    // the caller owns it again: it is useless, and counted
	OfferAhead                     // it is too far ahead to be kept now: offer it again when events were taken
)

// DroppedFragment is a fragment that the Matcher gives back: used, or thrown away after it had been kept.
type DroppedFragment struct {
	Source int
	FragmentRef
	Fault     Fault  // 0: it was used
	Reference uint64 // the number that Fault compares it with
}

// Counts are the accounts of a source's fragments, by their outcome.
type Counts struct {
	Used             uint64 `help:"fragments of a live source in MEPs"`
	Missing          uint64 `help:"fragments that were not there when their event was built"`
	Gaps             uint64 `help:"times that numbers were left out"`
	Repeats          uint64 `help:"fragments thrown away since their event had one"`
	Backwards        uint64 `help:"fragments thrown away since their number ran backwards"`
	Late             uint64 `help:"fragments thrown away since their event was decided without them"`
	Jumps            uint64 `help:"fragments thrown away since their number jumped"`
	Unmatched        uint64 `help:"fragments thrown away since their time is outside the window of each event"`
	WaitingFragments uint64 `count:"waiting" kind:"level" help:"fragments not built yet; after a run, those left over"`
	Laps             uint64 `kind:"level" help:"times that the counter of a live source with wrap began anew"`
	GuessedLaps      uint64 `count:"guessed" help:"times that the lap of a live source's counter was guessed from the run"`
	FirstEvent       uint64 `count:"first_event" kind:"level" help:"lowest number of an event of which a fragment came"`
	NewestEvent      uint64 `count:"last_event" kind:"level" help:"number of the event of the newest fragment"`
}

// Range is the lowest and the highest plausible number of a source.
type Range struct{ First, Last uint64 }
