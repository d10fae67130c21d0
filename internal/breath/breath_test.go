package breath

import (
	"os"
	"runtime"
	"sync"
	"testing"
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
	wg.Wait()
	if n := testing.AllocsPerRun(100, Take); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTake(b *testing.B) {
	for b.Loop() {
		Take()
	}
}
