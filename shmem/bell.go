package shmem

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bell wakes waiters in other processes: a futex word and a count of those who wait for it.
//
// Whoever changes something stores it and then rings; whoever waits announces itself, reads the
// sequence, looks whether what it wants is there, and only then sleeps on that sequence. All
// stores are sequentially consistent, so either the waiter sees the change or the ringer sees the
// waiter. Without waiters a ring is one load. A waiter that dies leaves the count too high, which
// costs the ringers a system call each and nothing else.
type bell struct{ seq, waiters *atomic.Uint32 }

// Operations of futex(2), without FUTEX_PRIVATE_FLAG: the waiters are other processes.
const (
	futexWait = 0
	futexWake = 1
)

func (b bell) ring() {
	if b.waiters.Load() != 0 {
		b.ringAll()
	}
}

func (b bell) ringAll() {
	b.seq.Add(1)
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.seq)), futexWake, math.MaxInt32, 0, 0, 0)
}

// sleep returns when the bell rang after seq was read, when patience is over, or for no reason.
// It says whether patience was over.
func (b bell) sleep(seq uint32, patience time.Duration) (late bool) {
	ts := unix.NsecToTimespec(int64(patience))
	return errors.Is(waitFutex(b.seq, seq, &ts), unix.ETIMEDOUT)
}

const (
	// spinPolls is how often a waiter looks before it sleeps: 2 µs for a reader (17 ns a look), 9 µs
	// for a writer (70 ns: it looks at 16 readers), measured on a 2-core VM, 2026-11-21. A flag
	// takes 0.3 µs between two running processes (limits.md) and a futex wake-up several µs, so this
	// catches a peer that runs and costs little where there is no free core.
	spinPolls = 128

	// patience is how long a sleeper trusts that its peer lives.
	patience = 100 * time.Millisecond
)

// await returns nil when poll says true, its error when it fails, ctx's when ctx is done, and alive's
// when the peer turns out dead with nothing left to poll.
func (b bell) await(ctx context.Context, poll func() (bool, error), alive func() error) error {
	for range spinPolls {
		if ok, err := poll(); ok || err != nil {
			return err
		}
	}
	defer b.ringWhenDone(ctx)()
	var dead error
	for {
		b.waiters.Add(1)
		seq := b.seq.Load()
		ok, err := poll()
		if err == nil && !ok {
			err = ctx.Err()
		}
		if err == nil && !ok {
			err = dead
		}
		late := false
		if err == nil && !ok {
			late = b.sleep(seq, patience)
		}
		b.waiters.Add(^uint32(0))
		if ok || err != nil {
			return err
		}
		if late {
			dead = alive() // then poll once more: it may have written before it died
		}
	}
}

// ringWhenDone rings when ctx is done. The returned function undoes that; after it, the bell's
// memory is not touched any more and may be unmapped.
func (b bell) ringWhenDone(ctx context.Context) func() {
	rung := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		b.ringAll()
		close(rung)
	})
	return func() {
		if !stop() {
			<-rung
		}
	}
}
