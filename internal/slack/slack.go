// Package slack has the monitor of Go's runtime look after a node less often.
//
// The monitor is a thread of its own. Where its process has begun to work, it sleeps for 20 µs at a time, for a
// millisecond and longer. On a machine with more nodes than processors every node begins to work again and again, and
// its monitor takes the processor each time: 15 % of both processors went there with 29 nodes on two
// (docs/design/015). The kernel may wake a thread later than it asked for, by its timer slack: 50 µs, if nobody says
// otherwise. A thread has the slack of the one that made it, and a process that of the one that started it.
//
// So whoever starts nodes takes Node first, on the thread that starts them, and a node that was started by others calls
// Again. The price: all timers of a node come up to a millisecond late. Those of Go are no better than a millisecond
// where a process waits for them, and nothing in a node waits for less.
//
// What the caller must do: lock the goroutine to its thread for Take, and let the thread end with it.
package slack

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Node is for nodes: a choice, 2026-11-26. Half of it gains nine tenths, and five times as much little more.
	Node = time.Millisecond
	// Standard is the kernel's own, for programs of others.
	Standard = 50 * time.Microsecond
)

// Take gives the calling thread a slack, which threads and processes have that it starts. A kernel that refuses is left
// as it is: nothing but time depends on it.
func Take(d time.Duration) { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d.Nanoseconds()), 0, 0, 0) }

// Again starts this program once more in its place, with the slack of nodes, where it has less: the monitor is there
// before the program can say anything. It returns where nothing is to be done, or nothing can be done.
func Again() {
	runtime.LockOSThread() // what is started anew has the slack of this thread
	defer runtime.UnlockOSThread()
	had, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || time.Duration(had) >= Node {
		return
	}
	Take(Node)
	_ = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}
