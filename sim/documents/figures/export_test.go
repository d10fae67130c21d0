package figures

// What the tests of the package name beside what it exports.
const (
	RealSystem = verdictRealSystem
	Truncated  = verdictTruncated
	Differs    = verdictDiffers
	Failed     = verdictFailed
	Holds      = verdictHolds
	Partial    = verdictPartial
	Ranges     = verdictRanges
	NotRun     = verdictNotRun
	Unknown    = verdictUnknown
)

var Count = count
