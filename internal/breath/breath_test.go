package breath

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"ringlet/testkit/patiently"
)

// TestNetworkGoesOn holds that who waits for a descriptor goes on though another goroutine always has something to do,
// in a process with a single P.
func TestNetworkGoesOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var got int
	var mu sync.Mutex
	go func() {
		for b := make([]byte, 1); ; {
			if _, err := r.Read(b); err != nil {
				return
			}
			mu.Lock()
			got++
			mu.Unlock()
		}
	}()
	const rounds, most = 100, 10
	breaths := 0
	for round := range rounds {
		Take() // the reader waits
		if _, err := w.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		for seen := 0; seen <= round; breaths++ {
			Take()
			mu.Lock()
			seen = got
			mu.Unlock()
		}
	}
	if breaths > rounds*most {
		t.Errorf("it took %d breaths until the network went on %d times", breaths, rounds)
	}
}

// TestMany holds that more goroutines can take breath than there are descriptors for, and that it allocates nothing.
func TestMany(t *testing.T) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 1000 {
				Take()
			}
		})
	}
	patiently.Wait(t, wg.Wait)
	if n := testing.AllocsPerRun(100, Take); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTake(b *testing.B) {
	for b.Loop() {
		Take()
	}
}

// TestNoDescriptorIsLeftBehind: where the fourth cannot be made, the three before it are closed.
func TestNoDescriptorIsLeftBehind(t *testing.T) {
	var made []*breather
	got := four(func() (*breather, error) {
		if len(made) == 3 {
			return nil, syscall.EMFILE
		}
		b, err := newBreather()
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
			t.Errorf("the descriptor of breather %d was open: %v", i, err)
		}
	}
}
