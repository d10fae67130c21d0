package event

// What the tests of the package name beside what it exports.
const MaxAlign = maxAlign

var (
	MDFChecksums    = mdfChecksums
	ParseBank       = parseBank
	ParseRecordBank = parseRecordBank
)

func (b Bank) PaddedSize() int            { return b.paddedSize() }
func (r Record) ComputedChecksum() uint32 { return r.computedChecksum() }

// ErrPacked is errPacked.
var ErrPacked = errPacked
