// Package transcript runs scripts of commands against a pure core in tests, so that the behaviour of the core can be
// read and reviewed as prose (in the manner of etcd-io/raft).
//
// A transcript is a file testdata/*.txt:
//
//	# A line that begins with # is for the reader.
//	> this is said to the core
//	and these lines,
//	up to the next line that is said, a remark or an empty line, are its answer
//
// What the caller must do: pass Play a function that makes a new core for each file and answers one command at a time.
// If an answer differs from the written one, the test fails and shows the differing lines; `go test -update` writes all
// answers anew, for review. Expect does the same for any one file. Number reads the numbers of a command.
//
// The package registers the flag -update: a test package that imports it has no such flag of its own. It is for tests
// alone; depguard keeps it out of everything else.
//
// An answer must not contain an empty line, or one that begins with "> " or "#": Play could not distinguish it from the
// script, and fails the test.
package transcript
