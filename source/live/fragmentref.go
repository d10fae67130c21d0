package live

import (
	"math"
	"time"

	"ringlet/event"
)

// NoEvent is no number of an event.
const NoEvent = event.EndOfRun

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// FragmentRef is a fragment as the Matcher knows it.
type FragmentRef struct {
	Event uint64
	Ref   uint64 // what the caller finds its bytes by
	Size  uint16 // bytes
	Type  event.BankType
}

// OfferResult is what Offer makes of a fragment.
type OfferResult uint8

// The verdicts.
const (
	OfferKept   OfferResult = iota // it is the Matcher's, until FinishCut or TakeDropped gives it back
	OfferThrown                    // it is the caller's again: it is of no use, and counted
	OfferAhead                     // it is too far ahead to be kept now: offer it again when events were taken
)

// DroppedFragment is a fragment that the Matcher gives back: used, or thrown away after it had kept it.
type DroppedFragment struct {
	Source int
	FragmentRef
	Fault     Fault  // 0: it was used
	Reference uint64 // what Why compares it with
}

// Counts are the accounts of a source's fragments, by what became of them.
type Counts struct {
	Used             uint64 `help:"fragments of a live source in MEPs"`
	Missing          uint64 `help:"fragments that were not there when their event was built"`
	Gaps             uint64 `help:"times that numbers were left out"`
	Repeats          uint64 `help:"fragments thrown away since their event had one"`
	Backwards        uint64 `help:"fragments thrown away since their number ran backwards"`
	Late             uint64 `help:"fragments thrown away since their event was decided without them"`
	Jumps            uint64 `help:"fragments thrown away since their number was far from those around it"`
	WaitingFragments uint64 `count:"waiting" kind:"level" help:"fragments that wait for their event to be built; after a run, those left over"`
	FirstEvent       uint64 `count:"first_event" kind:"level" help:"lowest number of an event of which a fragment came"`
	NewestEvent      uint64 `count:"last_event" kind:"level" help:"number of the event of the newest fragment"`
}

// Range is the lowest and the highest number that a source gave and that may be right.
type Range struct{ First, Last uint64 }
