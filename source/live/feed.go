package live

import (
	"context"

	"ringlet/event"
)

// Fragment is the data of one source for one event.
type Fragment struct {
	Event uint64         // number of the event, from 0, counted by the front-end
	Type  event.BankType // as in an MFP; what the front-end says in its hello, 51 (TestDet) if it says nothing
	Data  []byte         // at most FeedSettings.MaxFragment bytes, in the feed's memory: valid until ReleaseFragments
	event.Words
}

// Feed receives the fragments of one source.
//
// One goroutine calls all methods but Stats, which any goroutine may call.
type Feed interface {
	// Next waits until at least one fragment is there and writes the fragments that are there to dst, at most len(dst),
	// in the order in which they came. A front-end that goes away and comes back is no error. io.EOF says that the
	// front-end declared the end of its run; ctx's error, that ctx is over. Any other error says that this source cannot
	// go on; it names the source and what to do.
	Next(ctx context.Context, dst []Fragment) (int, error)
	// ReleaseFragments says that the caller has copied the next n of the fragments that Next returned and that are not
	// released yet: the feed may use their memory again.
	ReleaseFragments(n int)
	// SetResumeEvent sets the event after the highest one that was taken and accepted: the feed asks a front-end that
	// reconnects to send from there on. It may be called again with the same event, and the event may be lower than those
	// of fragments that the feed gave.
	SetResumeEvent(event uint64)
	// ReportGivenUp reports that the feed's fragments of the events [from, to) are in no file of this run and will be in
	// none, and why. A SetSafeBelow beyond them comes afterwards.
	ReportGivenUp(from, to uint64, why Fault)
	// SetSafeBelow says that each fragment that the feed gave of an event below this number has its outcome: it was
	// built, and a builder unit has made it as durable as the run promises; or ReportGivenUp has reported it. A feed
	// whose carrier has acknowledgements acknowledges these events to its front-end.
	SetSafeBelow(event uint64)
	// Stats returns the counters so far.
	Stats() Stats
	// Close releases what the feed holds. It does not wake a Next that waits: the end of its ctx does. It may be called
	// twice.
	Close() error
}

// Explainer is a Feed that can say why it refused messages.
type Explainer interface {
	// Explain returns the latest reason, a sentence without the source's name; "" before the first refusal. Any goroutine
	// may call it.
	Explain() string
}

// FrontendNamer is a Feed that knows its front-end.
type FrontendNamer interface {
	// Frontend returns the name, if it gave one, and the place of the front-end that is attached, or was last. It is
	// printable text of at most 512 bytes; "" before the first front-end. Any goroutine may call it.
	Frontend() string
}

// SourceNamer is a Feed whose front-end may say how it calls its source.
type SourceNamer interface {
	// SourceName returns that name, printable text of at most 64 bytes; "" if there is none. Any goroutine may call it.
	SourceName() string
}

// Stats are the counters of a Feed. A counter that a carrier does not have stays 0.
type Stats struct {
	Fragments         uint64 `help:"fragments received"`
	Bytes             uint64 `unit:"bytes" help:"bytes of data in received fragments"`
	DroppedByFrontend uint64 `count:"dropped" help:"fragments that the front-end dropped for want of room, as it says"`
	RefusedMessages   uint64 `count:"refused" help:"messages, segments or fragments refused: they break the format or a limit"`
	LostFragments     uint64 `count:"lost" help:"fragments of which a part did not come in time"`
	Repeated          uint64 `help:"fragments that came again, and were there already"`
	FrontendsAttached uint64 `count:"attached" help:"times that a front-end attached"`
	FrontendsGone     uint64 `count:"gone" help:"times that a front-end left without an end of its run"`
}
