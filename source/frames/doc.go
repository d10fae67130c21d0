// Package frames receives fragments from front-ends over a stream: a TCP connection, a Unix-domain socket, or the
// standard output of a program that it runs. It is the carrier of the inputs tcp:, unix: and exec:, and stands for the
// Reader and the Writer of LHCb-EB §III.B where memory cannot be shared. The bytes are those of docs/format/frames.md.
//
// A front-end sends its hello, Ringlet answers from which event on it wants fragments, and frames follow. Ringlet
// acknowledges events that have their outcome, and reports beforehand which of their fragments were given up. The
// front-end keeps the other fragments, and sends them again after a break. Ringlet counts a fragment that comes again
// although it is there already, and throws it away, so that each fragment is handed out once.
//
// wire.go, admit.go and givenup.go decide, without I/O. store.go is the memory into which frames are read and out of
// which they are handed, without a copy and without an allocation for each. feed.go is the live.Feed, session.go one
// connection, takeover.go how a new connection replaces a dead one, listen.go and exec.go the two ways in which
// connections arise.
//
// The caller opens a feed, and then follows live.Feed. The caller must call Close, which ends the program of exec:.
//
// Package frames does not prove who a front-end is, but where an input over TCP has a secret: secret.go makes both
// ends prove that they have it. Otherwise every process that reaches the address may send; connections that send no
// hello make room for new ones (connlimit.Gate). One front-end is attached at a time.
package frames
