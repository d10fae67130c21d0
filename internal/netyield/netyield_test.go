package netyield

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/testkit/patiently"
)

// TestNetworkGoesOn holds that who waits for a descriptor goes on though another goroutine always has something to do,
// in a process with a single P. What waits makes no system call when it goes on: in one the P could be taken from it,
// and the yields until it has a processor again would say how busy the machine is.
func TestNetworkGoesOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e, err := newYielder()
	if err != nil {
		t.Fatal(err)
	}
	var woken atomic.Int64
	over := make(chan error, 1)
	go func() {
		over <- e.raw.Read(func(uintptr) bool {
			woken.Add(1)
			return false // it waits for the next event
		})
	}()
	const rounds, most = 100, 10
	for round := range int64(rounds) {
		for yields := 0; woken.Load() <= round; yields++ {
			if yields > most {
				t.Fatalf("who waits had not gone on after %d yields, in round %d", yields, round)
			}
			Yield()
		}
		if err := e.raw.Control(func(fd uintptr) { _, err = unix.Write(int(fd), readyValue) }); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = e.file.Close()
	if err := patiently.Receive(t, over); err == nil {
		t.Error("who waits was not told of the end")
	}
}

// TestMany holds that more goroutines can yield than there are descriptors for, and that it allocates nothing.
func TestMany(t *testing.T) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 1000 {
				Yield()
			}
		})
	}
	patiently.Wait(t, wg.Wait)
	if n := testing.AllocsPerRun(100, Yield); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTake(b *testing.B) {
	for b.Loop() {
		Yield()
	}
}

// TestNoDescriptorIsLeftBehind: where the fourth cannot be made, the three before it are closed.
func TestNoDescriptorIsLeftBehind(t *testing.T) {
	var made []*yielder
	got := createFour(func() (*yielder, error) {
		if len(made) == 3 {
			return nil, syscall.EMFILE
		}
		b, err := newYielder()
		if err == nil {
			made = append(made, b)
		}
		return b, err
	})
	if got != nil || len(made) != 3 {
		t.Errorf("%d of %d are kept", len(got), len(made))
	}
	for i, b := range made {
		if err := b.file.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the descriptor of yielder %d was open: %v", i, err)
		}
	}
}
