package gcm

import (
	"fmt"
	"testing"
)

// BenchmarkGCM: each form, sizes from a small event to a jumbo packet and more, from the processor's cache (hot) or
// from memory that it has not seen for long (cold).
func BenchmarkGCM(b *testing.B) {
	cold := make([]byte, 512<<20)
	for i := 0; i < len(cold); i += 512 {
		cold[i] = byte(i >> 9)
	}
	for _, n := range []int{85, 1424, 8972, 65536} {
		for f := wideForm; f <= libraryForm; f++ {
			if !f.isSupported() {
				continue
			}
			for _, memory := range []struct {
				name  string
				bytes []byte
			}{{"hot", cold[:2*(n+Overhead)]}, {"cold", cold}} {
				b.Run(fmt.Sprintf("seal/%d/%v/%s", n, f, memory.name), func(b *testing.B) {
					benchmarkSeal(b, f, n, memory.bytes)
				})
				b.Run(fmt.Sprintf("open/%d/%v/%s", n, f, memory.name), func(b *testing.B) {
					benchmarkOpen(b, f, n, memory.bytes)
				})
			}
		}
	}
}

func benchmarkSeal(b *testing.B, f form, n int, memory []byte) {
	a := newAEAD(b, make([]byte, KeySize), f)
	out, nonce := make([]byte, 0, n+Overhead), make([]byte, NonceSize)
	b.SetBytes(int64(n))
	at := 0
	for b.Loop() {
		out = a.Seal(out[:0], nonce, memory[at:at+n], nil)
		if at += n; at+n > len(memory) {
			at = 0
		}
	}
}

// benchmarkOpen opens messages that were sealed into the memory before.
func benchmarkOpen(b *testing.B, f form, n int, memory []byte) {
	a := newAEAD(b, make([]byte, KeySize), f)
	plain, nonce := make([]byte, n), make([]byte, NonceSize)
	out := make([]byte, 0, n)
	step := n + Overhead
	for at := 0; at+step <= len(memory); at += step {
		a.Seal(memory[at:at], nonce, plain, nil)
	}
	b.SetBytes(int64(n))
	at := 0
	for b.Loop() {
		if _, err := a.Open(out, nonce, memory[at:at+step], nil); err != nil {
			b.Fatal(err)
		}
		if at += step; at+step > len(memory) {
			at = 0
		}
	}
}
