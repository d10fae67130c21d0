package reading

// What the tests of the package name beside what it exports.
var Parse = parse

type (
	Entry         = entry
	NoOutputError = noOutputError
)
