package live

import (
	"context"

	"ringlet/event"
)

// Fragment is what one source has for one event.
type Fragment struct {
	Event uint64         // number of the event, from 0, counted by the front-end
	Type  event.BankType // as in an MFP; what the front-end says in its hello, 51 (TestDet) if it says nothing
	Data  []byte         // at most event.MaxFragment bytes, in the feed's memory: valid until Done
}

// Feed is the fragments of one source, as they come.
//
// One goroutine calls Next, Done, SetResumeEvent, ReportGivenUp, SetSafeBelow and Close. Stats may be called by any.
type Feed interface {
	// Next waits until at least one fragment is there and writes those that are there to dst, at most len(dst) of them,
	// in the order in which they came. A front-end that goes away and comes back is no error. io.EOF says that the
	// front-end declared the end of its run; ctx's error, that ctx is over. Any other error says that this source
	// cannot go on; it names the source and what to do.
	Next(ctx context.Context, dst []Fragment) (int, error)
	// ReleaseFragments tells that the next n fragments, of those that Next gave and Done was not told of, have been
	// copied: the feed may use their memory again.
	ReleaseFragments(n int)
	// SetResumeEvent tells the number behind the highest one that was taken and accepted: from there on a front-end that
	// comes again is asked to send. It may be told again, and may be lower than the numbers that the feed gave.
	SetResumeEvent(event uint64)
	// ReportGivenUp tells that a fragment of each of the events from one up to another, without that one, which the feed
	// gave, is in no file of this run and will be in none, and why. SetSafeBelow of a higher number comes behind it.
	ReportGivenUp(from, to uint64, why Fault)
	// SetSafeBelow tells that each fragment of an event below this number, of those that the feed gave, has its outcome:
	// it was built, and a builder unit has what the durability of the run promises; or ReportGivenUp has told of it. A
	// feed that acknowledges to its front-end acknowledges this.
	SetSafeBelow(event uint64)
	// Stats returns the counters so far.
	Stats() Stats
	// Close lets go of what the feed holds, and wakes nobody: ctx of Next does. It may be called twice.
	Close() error
}

// Explainer is a Feed that can say why it refused what it counts as refused.
type Explainer interface {
	// Explain is the latest reason, a sentence without the source's name; "", as long as nothing was refused. Any
	// goroutine may call it.
	Explain() string
}

// FrontendNamer is a Feed that knows who sends to it.
type FrontendNamer interface {
	// Frontend is the front-end that is attached, or was last: the name that it gave, if it gave one, and where it is. It
	// is text that can be shown, of 512 bytes at most; "" before one came. Any goroutine may call it.
	Frontend() string
}

// Stats are the counters of a Feed. What a carrier does not know stays 0.
type Stats struct {
	Fragments         uint64 `help:"fragments received"`
	Bytes             uint64 `unit:"bytes" help:"bytes of data in them"`
	DroppedByFrontend uint64 `count:"dropped" help:"fragments that the front-end says it has dropped, since there was no room"`
	RefusedMessages   uint64 `count:"refused" help:"messages, segments or fragments refused: they break the format or a limit"`
	LostFragments     uint64 `count:"lost" help:"fragments of which a part did not come in time"`
	Repeated          uint64 `help:"fragments that came again, and were there already"`
	FrontendsAttached uint64 `count:"attached" help:"times that a front-end attached"`
	FrontendsGone     uint64 `count:"gone" help:"times that a front-end went away without saying that its run is over"`
}
