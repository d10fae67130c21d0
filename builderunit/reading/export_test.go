package reading

import "ringlet/builderunit/sink"

// What the tests of the package name beside what it exports.
var Parse = sink.ParseEntry

type (
	Entry         = sink.Entry
	EntryError    = sink.EntryError
	NoOutputError = noOutputError
)
