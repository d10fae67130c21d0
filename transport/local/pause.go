//go:build amd64 || arm64

package local

// pause tells the processor n times that this is a loop that waits: the other thread of its core, which may be the one
// waited for, gets what the loop does not use. n is not zero.
//
//go:noescape
func pause(n uint32)
