package figures

// What the tests of the package name beside what it exports.
const (
	ByReal  = verdictByReal
	Cut     = verdictCut
	Differs = verdictDiffers
	Failed  = verdictFailed
	Holds   = verdictHolds
	Partly  = verdictPartly
	Ranges  = verdictRanges
	Unasked = verdictUnasked
	Unknown = verdictUnknown
)

var Count = count
