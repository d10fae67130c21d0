package live

import "log/slog"

// FeedSettings are the parameters of a feed.
type FeedSettings struct {
	Address  string // the text after the kind's name and colon
	SourceID uint16 // id of the source in event data; a front-end that gives another one is refused
	Name     string // of the source in errors, reports and logs: its part of the input, word for word
	Run      uint64 // number of the run
	// SourceName is what the input calls the source; "": nothing
	SourceName string
	Config     string       // what the front-end is given as its part of the configuration; "": nothing
	AlignLog2  uint8        // log2 of the alignment of a fragment's data in an MFP, in bytes
	Log        *slog.Logger // for events of the front-end: attached, gone, refused
	// MaxFragment is the largest fragment that the feed may give, in bytes; 0: event.MaxNarrowFragment. A feed of a kind
	// without Held gives none larger than that.
	MaxFragment int
	// WrapBits is how many bits the counter of the front-end has; 0: it numbers events with 64 bits. The numbers that a
	// feed gives are the front-end's, those that it is told are unwrapped: it must not compare them.
	WrapBits uint8
	// OnBusy is called when the front-end says that it is busy, and when it is so no more, in turns; nil: nobody wants to
	// know. The feed calls it without a lock of its own, and it does not wait.
	OnBusy func(busy bool)
}
