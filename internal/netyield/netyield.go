package netyield

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// yielder is something in the process that can be waited for as one waits for the network. Whoever yields makes
// it ready, and waits for it: so it goes on when the runtime has looked at the network, and after those that were
// there before.
type yielder struct {
	mu        sync.Mutex // held by whoever yields
	file      *os.File
	raw       syscall.RawConn
	ready     bool
	makeReady func(fd uintptr) bool // makes the descriptor ready, at the first call of each Yield
}

// yielders are for so many goroutines at a time; who finds none yields. Where no descriptor is left there are none.
var yielders = sync.OnceValue(func() []*yielder { return createFour(newYielder) })

// createFour makes four or, where one cannot be made, none, and closes those that were.
func createFour(create func() (*yielder, error)) (all []*yielder) {
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

// readyValue is what makes an event descriptor ready.
var readyValue = []byte{1, 0, 0, 0, 0, 0, 0, 0}

func newYielder() (*yielder, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "netyield")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	b := &yielder{file: f, raw: raw}
	b.makeReady = func(fd uintptr) bool {
		if b.ready {
			return true
		}
		b.ready = true
		_, err := unix.Write(int(fd), readyValue)
		return err != nil // not ready: wait
	}
	return b, nil
}

// Yield lets all other goroutines go on that can, and those for which something has come. It allocates nothing.
func Yield() {
	for _, b := range yielders() {
		if b.mu.TryLock() {
			b.ready = false
			err := b.raw.Read(b.makeReady)
			b.mu.Unlock()
			if err == nil {
				return
			}
		}
	}
	runtime.Gosched()
}
