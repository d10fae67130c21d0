package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A host is a thread that is in the host's network and sees the host's files; processes are started from it. The thread
// lives as long as the soak: when it ends, the kernel kills the processes that it has started (Pdeathsig).
type host struct {
	name, addr string
	enter      func() error // puts a thread on the host's network; nil: there is one network for all
	jobs       chan func()
}

// A bindMount mounts a directory in the place of another, for one host.
type bindMount struct{ from, target string }

// newHost makes the thread. binds need a mount namespace of the soak (isolate).
func newHost(name, addr string, enter func() error, binds []bindMount) (*host, error) {
	h := &host{
		name:  name,
		addr:  addr,
		enter: enter,
		jobs:  make(chan func()),
	}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // without unlock: the thread ends with the goroutine
		err := h.setUpThread(binds)
		made <- err
		if err != nil {
			return
		}
		for job := range h.jobs {
			job()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	return h, nil
}

// setUpThread moves the calling thread to the host's mounts and network.
func (h *host) setUpThread(binds []bindMount) error {
	if len(binds) > 0 {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("it gets no mounts of its own: %w", err)
		}
	}
	for _, b := range binds {
		if err := unix.Mount(b.from, b.target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s cannot be put in the place of %s: %w", b.from, b.target, err)
		}
	}
	if h.enter == nil {
		return nil
	}
	return h.enter()
}

// runOnThread runs f on the thread.
func (h *host) runOnThread(f func() error) error {
	done := make(chan error, 1)
	h.jobs <- func() { done <- f() }
	return <-done
}

// close ends the thread, and with it the processes that it has started.
func (h *host) close() { close(h.jobs) }

// dial connects from the host's network.
func (h *host) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	if h.enter == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = h.enter(); err == nil {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}()
	<-done
	return conn, err
}

// isolated is set in the environment of the process that isolate has executed.
const isolated = "RINGLET_SOAK_ISOLATED"

// isolate executes this program again in its own mount namespace, which no other process sees and which ends with its
// last process. It has its own /dev/shm, without files of other programs, and room for small disks. If that is not
// possible, it returns why.
func isolate() (why error) {
	if os.Getenv(isolated) != "" {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("this needs root")
	}
	// The main thread is locked to this goroutine: the program executed below inherits its namespace.
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("soak", "/dev/shm", "tmpfs", 0, "size=50%"); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(exe, os.Args, append(os.Environ(), isolated+"=1"))
}
