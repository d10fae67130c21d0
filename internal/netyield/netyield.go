package netyield

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// yielder is an event descriptor, which the runtime polls like a socket. The goroutine in Yield makes it ready and
// waits for it: so the goroutine runs again only after the runtime has polled the network, and after the goroutines
// that were runnable before.
type yielder struct {
	mu        sync.Mutex // held by the goroutine that yields
	file      *os.File
	raw       syscall.RawConn
	ready     bool
	makeReady func(fd uintptr) bool // makes the descriptor ready, at the first call of each Yield
}

// yielders serve four goroutines at a time; a fifth calls runtime.Gosched. If the process has no descriptors left,
// there are none.
var yielders = sync.OnceValue(func() []*yielder { return createFour(newYielder) })

// createFour makes four yielders. If one fails, it closes the others and returns none.
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

// readyValue is the value 1 in the form that is written to an event descriptor.
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

// Yield lets all runnable goroutines run, and those for which data has arrived from the network. It allocates nothing.
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
