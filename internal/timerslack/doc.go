// Package timerslack has the monitor of Go's runtime look after a node less often.
//
// The monitor is a thread of its own. Where its process has begun to work, it sleeps for 20 µs at a time, for a
// millisecond and longer. On a machine with more nodes than processors every node begins to work again and again, and
// its monitor takes the processor each time: 15 % of both processors went there with 29 nodes on two
// (docs/design/013-hot-path.md). The kernel may wake a thread later than it asked for, by its timer slack: 50 µs, if
// nobody says otherwise. A thread has the slack of the one that made it, and a process that of the one that started it.
//
// So a command that lasts starts itself again with the slack NodeTimerSlack, and what it starts has that from the
// beginning; programs of others get KernelDefault. The price: a start takes twice as long, and all timers of a node
// come up to a millisecond late. Those of Go are no better than a millisecond where nothing else happens, and nothing
// in a node waits for less.
//
// What the caller must do: call Reexec before anything is open or under way; lock the goroutine to its thread for Set,
// and let the thread end with it.
//
// What it does not promise: that there is a slack. A kernel that refuses is left as it is.
package timerslack
