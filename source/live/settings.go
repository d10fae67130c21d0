package live

import "log/slog"

// FeedSettings are what a feed is opened with.
type FeedSettings struct {
	Address   string       // what the input says behind the kind's name and a colon
	SourceID  uint16       // id of the source in the event's data; a front-end that says another one is refused
	Name      string       // of the source, as errors, reports and logs say it: the input, word for word
	Run       uint64       // number of the run
	AlignLog2 uint8        // log2 of the bytes that a fragment's data begins at a multiple of, in an MFP
	Log       *slog.Logger // what happened to the front-end: attached, gone, refused
}
