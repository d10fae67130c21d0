package crc32c

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"ringlet/testkit/guarded"
)

// TestSums holds that the sums are those of hash/crc32, whatever the pieces' sizes and places, and that nothing is
// allocated.
func TestSums(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	mem := make([]byte, 4<<10)
	for i := range mem {
		mem[i] = byte(random.Uint32())
	}
	sums := make([]uint32, 8)
	for range 20000 {
		pieces := make([][]byte, random.IntN(len(sums)+1))
		for i := range pieces {
			n := random.IntN(70)
			if random.IntN(4) == 0 {
				n = random.IntN(2 << 10)
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

// TestEveryLength holds that Sum and Add are those of hash/crc32 for pieces of each length up to 3,000, and of some
// up to 70,000, wherever they lie, and that not a byte beyond them is read.
func TestEveryLength(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	mem := guarded.Pages(t, 18)
	for i := range mem {
		mem[i] = byte(random.Uint32())
	}
	for n := range 4000 {
		if n >= 3000 {
			n = random.IntN(70001)
		}
		at := random.IntN(len(mem) - n + 1)
		for _, b := range [][]byte{mem[:n], mem[at : at+n], mem[len(mem)-n:]} {
			want := crc32.Checksum(b, table)
			if got := Sum(b); got != want {
				t.Fatalf("%d bytes: %08x, want %08x", n, got, want)
			}
			if cut := random.IntN(n + 1); Add(Sum(b[:cut]), b[cut:]) != want {
				t.Fatalf("%d bytes, cut at %d: another sum", n, cut)
			}
		}
	}
}

// FuzzSum compares with hash/crc32, for any beginning.
func FuzzSum(f *testing.F) {
	f.Add(uint32(0), []byte("123456789"))
	f.Add(^uint32(0), make([]byte, 1000))
	f.Fuzz(func(t *testing.T, sum uint32, b []byte) {
		if got, want := Add(sum, b), crc32.Update(sum, table, b); got != want {
			t.Fatalf("%08x and %d bytes: %08x, want %08x", sum, len(b), got, want)
		}
	})
}

// BenchmarkSum takes pieces in one place again and again, and through memory that no cache holds.
func BenchmarkSum(b *testing.B) {
	mem := make([]byte, 256<<20)
	for i := range mem {
		mem[i] = byte(i >> 6)
	}
	for _, size := range []int{256, 4 << 10, 1 << 20} {
		for place, step := range map[string]int{"hot": 0, "cold": size} {
			b.Run(fmt.Sprintf("%s/%d", place, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for at := 0; b.Loop(); at = (at + step) % (len(mem) - size) {
					Sum(mem[at : at+size])
				}
			})
		}
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
