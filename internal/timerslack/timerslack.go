package timerslack

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// NodeTimerSlack is the slack of nodes. Half of it gains nine tenths as much, five times of it little more
	// (2026-11-26).
	NodeTimerSlack = time.Millisecond
	// KernelDefault is the kernel's default, for programs that are not Ringlet's.
	KernelDefault = 50 * time.Microsecond
)

// Set sets the slack of the calling thread, which the threads and processes that it starts inherit. It ignores an
// error: only the timing depends on the slack.
func Set(d time.Duration) { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d.Nanoseconds()), 0, 0, 0) }

// Reexec executes this program again in the same process with NodeTimerSlack, if the slack is smaller: the monitor
// thread starts before main does, and only a new start gives it the slack. It returns if the slack is large enough
// already, or cannot be changed.
func Reexec() {
	runtime.LockOSThread() // the new program inherits the slack of this thread
	defer runtime.UnlockOSThread()
	had, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || time.Duration(had) >= NodeTimerSlack {
		return
	}
	path, err := os.Executable() // not /proc/self/exe, which would be the name in lists of processes
	if err != nil {
		return
	}
	Set(NodeTimerSlack)
	_ = syscall.Exec(path, os.Args, os.Environ())
}
