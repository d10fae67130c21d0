//go:build amd64 || arm64

package local

// pause tells the processor n times that this loop only waits: the core's other hardware thread, which may run what the
// loop waits for, gets its execution units. n is not zero.
//
//go:noescape
func pause(n uint32)
