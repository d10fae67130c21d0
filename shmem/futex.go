package shmem

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitFutex sleeps while a futex word is seq, for at most the given time. It releases its P at once. An ordinary system
// call keeps its P until the runtime's monitor notices, every 20 µs to 10 ms: in a process with one P no other
// goroutine would run meanwhile, and two nodes on two cores lost a quarter of their time so (small events, local,
// 2026-11-22). The runtime has no public function that sleeps on shared memory. It keeps the two linked functions for
// such users (their comments in runtime/proc.go say so); gVisor uses them in the same way.
//
// The stack must not grow between the two, so there is neither a stack check nor the race detector here.
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
