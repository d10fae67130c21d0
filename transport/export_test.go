package transport

// What the tests of the package name beside what it exports.
type (
	StuckError      = stuckError
	TurnedAwayError = turnedAwayError
)
