package shmem

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// reserveStep is the size of one fallocate, bytes. On tmpfs a signal undoes the whole call, and the Go runtime sends
// signals to a running thread, at most every 10 ms: a step should be done before. 16 MiB take 5 to 7 ms, 64 MiB 19 to
// 26 (2-core VM, Linux 6.18, 2026-11-21).
const reserveStep = 16 << 20

// checkBudget checks whether there is enough memory for a segment, before reserving fills the machine's memory and
// hurts other processes.
func checkBudget(dir string, size int) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Blocks == 0 {
		return nil //nolint:nilerr // a file system that reports no size sets no limit
	}
	free := st.Bavail * uint64(st.Bsize)
	free -= min(free, reservedMemory(dir))
	if uint64(size) > free {
		return fmt.Errorf("%w: %d bytes are free", ErrNoSpace, free)
	}
	return nil
}

// reserveMemory gives the memory its size and all its pages: if memory is short, this returns an error, and no later
// store kills the process.
func reserveMemory(f *os.File, size int) error {
	fd := int(f.Fd())
	if err := ignoringEINTR(func() error { return unix.Ftruncate(fd, int64(size)) }); err != nil {
		return spaceError(err)
	}
	for off := 0; off < size; off += reserveStep {
		n := int64(min(reserveStep, size-off))
		err := ignoringEINTR(func() error { return unix.Fallocate(fd, 0, int64(off), n) })
		if err != nil {
			return spaceError(err)
		}
	}
	return nil
}

// prefault makes every page present and writable in this process's page table.
func prefault(mem []byte) error {
	err := ignoringEINTR(func() error { return unix.Madvise(mem, unix.MADV_POPULATE_WRITE) })
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// Before Linux 5.14. All blocks are reserved, so touching the pages cannot fail.
	for i := 0; i < len(mem); i += PageSize {
		mem[i] = 0
	}
	runtime.KeepAlive(mem)
	return nil
}

// spaceError wraps the system's errors for a lack of space in ErrNoSpace.
func spaceError(err error) error {
	for _, full := range []error{unix.ENOSPC, unix.ENOMEM, unix.EDQUOT, unix.EFBIG} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	return err
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
