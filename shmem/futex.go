package shmem

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitFutex sleeps on a futex word while it is seq, for the given time at most. It gives its P away at once. A system
// call of another kind keeps it until the runtime looks, which that does every 20 µs to 10 ms: in a process with a
// single P nothing else would run meanwhile, and of two nodes on two cores a quarter of the time was lost by that
// (small events, local, 2026-11-22). No public function of the runtime sleeps so on memory that processes share. These
// two are kept in place for those who link to them (their comments in runtime/proc.go say so); gVisor uses them alike.
//
// Nothing here may grow the stack between the two, so there is neither a check for that nor the race detector.
//
//go:nosplit
//go:norace
func waitFutex(word *atomic.Uint32, seq uint32, timeout *unix.Timespec) syscall.Errno {
	entersyscallblock()
	_, _, errno := syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(seq),
		uintptr(unsafe.Pointer(timeout)), 0, 0)
	exitsyscall()
	return errno
}

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()
