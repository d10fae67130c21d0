package crc32c

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestSums holds that the sums are those of hash/crc32, whatever the pieces' sizes and places, and that nothing is
// allocated.
func TestSums(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	mem := make([]byte, 4*most)
	for i := range mem {
		mem[i] = byte(random.Uint32())
	}
	sums := make([]uint32, 8)
	for range 20000 {
		pieces := make([][]byte, random.IntN(len(sums)+1))
		for i := range pieces {
			n := random.IntN(70)
			if random.IntN(4) == 0 {
				n = random.IntN(2 * most)
			}
			at := random.IntN(len(mem) - n)
			pieces[i] = mem[at : at+n]
		}
		Sums(sums, pieces)
		for i, p := range pieces {
			if want := crc32.Checksum(p, table); sums[i] != want || Sum(p) != want {
				t.Fatalf("piece %d of %d bytes: %08x and %08x, want %08x", i, len(p), sums[i], Sum(p), want)
			}
			if n := len(p) / 2; Add(Sum(p[:n]), p[n:]) != sums[i] {
				t.Fatalf("piece of %d bytes: in two halves its sum is another", len(p))
			}
		}
	}
	pieces := [][]byte{mem[:100], mem[1:160], mem[7:140], mem[3:9]}
	if n := testing.AllocsPerRun(100, func() { Sums(sums, pieces) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSums(b *testing.B) {
	mem := make([]byte, 1024)
	pieces := [][]byte{mem[:135], mem[200:354], mem[400:577]}
	sums := make([]uint32, len(pieces))
	b.Run("side by side", func(b *testing.B) {
		for b.Loop() {
			Sums(sums, pieces)
		}
	})
	b.Run("one by one", func(b *testing.B) {
		for b.Loop() {
			for i, p := range pieces {
				sums[i] = Sum(p)
			}
		}
	})
}
