// Package frames receives fragments from front-ends over a stream: a TCP connection, a Unix-domain socket, or the
// standard output of a program that it runs. It is the carrier of the inputs tcp:, unix: and exec:, and stands for the
// Reader and the Writer of LHCb-EB §III.B where memory cannot be shared. The bytes are those of docs/format/frames.md.
//
// A front-end says hello, Ringlet answers from which event on it wants fragments, and frames follow. Ringlet
// acknowledges events that have their outcome, and tells before which fragments were given up; a front-end keeps the
// others, and sends them again after a break. What comes again and is there already is counted and thrown away, so each
// fragment is handed out once.
//
// wire.go, admit.go and givenup.go decide, without I/O. store.go is the memory that frames are read into, and out of
// which they are handed: no copy, and no allocation for each. feed.go is the live.Feed, session.go one connection,
// takeover.go how one takes the place of a dead one, listen.go and exec.go the ways in which a connection comes to be.
//
// The caller opens a feed, and then does what live.Feed says. Close must be called; it ends the program of exec:.
//
// It does not promise who a front-end is, but where an input over TCP has a secret: secret.go has both ends prove that
// they have it. Else whoever reaches the address may send; those who say nothing make room (connlimit.Gate). One
// front-end is attached at a time.
package frames
