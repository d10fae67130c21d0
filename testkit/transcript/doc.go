// Package transcript plays conversations with a pure core in tests, so that what a core does reads as prose and is
// reviewed as prose (the second rung of the test ladder, in the manner of etcd-io/raft).
//
// A transcript is a file testdata/*.txt:
//
//	# A line that begins with # is for the reader.
//	> this is said to the core
//	and these lines,
//	up to the next line that is said, a remark or an empty line, are its answer
//
// What the caller must do: give Play a function that makes a new core for each file and answers one line at a time.
// Where an answer is another than the one written, the test fails and shows the differing lines; `go test -update`
// writes all answers anew, and the change is then reviewed. Expect does the same for any one file. Number reads the
// numbers of a command.
//
// The package registers the flag -update: a test package that imports it has no such flag of its own. It is for tests
// alone; depguard keeps it out of everything else.
//
// What it does not promise: that an answer may hold an empty line, or one that begins with "> " or "#". Such an answer
// could not be told from the script, and fails the test.
package transcript
