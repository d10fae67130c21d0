package netyield

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// breather is something in the process that can be waited for as one waits for the network. Whoever takes breath makes
// it ready, and waits for it: so it goes on when the runtime has looked at the network, and after those that were
// there before.
type breather struct {
	mu    sync.Mutex // held by whoever takes breath
	file  *os.File
	raw   syscall.RawConn
	done  bool
	first func(fd uintptr) bool // makes the descriptor ready, at the first call of each breath
}

// breathers are for so many goroutines at a time; who finds none yields. Where no descriptor is left there are none.
var breathers = sync.OnceValue(func() []*breather { return four(newBreather) })

// four makes four or, where one cannot be made, none, and closes those that were.
func four(create func() (*breather, error)) (all []*breather) {
	for range 4 {
		b, err := create()
		if err != nil {
			for _, b := range all {
				_ = b.file.Close()
			}
			return nil
		}
		all = append(all, b)
	}
	return all
}

// one is what makes an event descriptor ready.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

func newBreather() (*breather, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "breath")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	b := &breather{file: f, raw: raw}
	b.first = func(fd uintptr) bool {
		if b.done {
			return true
		}
		b.done = true
		_, err := unix.Write(int(fd), one)
		return err != nil // not ready: wait
	}
	return b, nil
}

// Take lets all other goroutines go on that can, and those for which something has come. It allocates nothing.
func Take() {
	for _, b := range breathers() {
		if b.mu.TryLock() {
			b.done = false
			err := b.raw.Read(b.first)
			b.mu.Unlock()
			if err == nil {
				return
			}
		}
	}
	runtime.Gosched()
}
