// Package timerslack makes the monitor thread (sysmon) of Go's runtime wake less often.
//
// When a process becomes busy, its monitor sleeps for 20 µs at a time, for a millisecond and longer. On a machine with
// more nodes than processors every node becomes busy again and again, and each time its monitor takes the processor: 29
// nodes on two processors lost 15 % of both (docs/design/015). The kernel may wake a thread later than it asked for, by
// the thread's timer slack, 50 µs by default. A thread inherits the slack of its creator, a process that of its parent.
//
// Therefore a long-running command executes itself again with the slack NodeTimerSlack, which all its threads and
// children inherit; programs that are not Ringlet's get KernelDefault. The price: a start takes twice as long, and all
// timers of a node fire up to a millisecond late. Go's own timers are no better than a millisecond in an idle process,
// and nothing in a node waits for less.
//
// What the caller must do: call Reexec before it opens or starts anything; lock the goroutine to its thread before Set,
// and let the thread end with the goroutine.
//
// What it does not promise: that the slack is set. A kernel may refuse; the process then runs with its old slack.
package timerslack
