package simnet

// What the tests of the package name beside what it exports.
var (
	ErrIdle     = errIdle
	ErrNoAnswer = errNoAnswer
)
