package timerslack

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// NodeTimerSlack is for nodes: a choice, 2026-11-26. Half of it gains nine tenths, and five times as much little more.
	NodeTimerSlack = time.Millisecond
	// KernelDefault is the kernel's own, for programs of others.
	KernelDefault = 50 * time.Microsecond
)

// Set gives the calling thread a slack, which threads and processes have that it starts. A kernel that refuses is left
// as it is: nothing but time depends on it.
func Set(d time.Duration) { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d.Nanoseconds()), 0, 0, 0) }

// Reexec starts this program once more in its place, with the slack of nodes, where it has less: the monitor is there
// before the program can say anything. It returns where nothing is to be done, or nothing can be done.
func Reexec() {
	runtime.LockOSThread() // what is started anew has the slack of this thread
	defer runtime.UnlockOSThread()
	had, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || time.Duration(had) >= NodeTimerSlack {
		return
	}
	path, err := os.Executable() // by its own path, whose last part is the name that others see
	if err != nil {
		return
	}
	Set(NodeTimerSlack)
	_ = syscall.Exec(path, os.Args, os.Environ())
}
