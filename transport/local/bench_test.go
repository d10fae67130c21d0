package local

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// cpu measures the processor time of this process, which on a busy machine says more than the clock.
func cpu(b *testing.B) (done func()) {
	spent := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	begin := spent()
	return func() { b.ReportMetric(float64(spent()-begin)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkWrite writes into another process's memory: go test -run xxx -bench . ./transport/local
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{128, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			e, _ := startChild(b, "sink", Config{Spin: 50 * time.Microsecond},
				func(e *end) { e.onPlaced = func(link.Placement) {} })
			ref := e.awaitRefs(b, 101)[100]
			data := bytes.Repeat([]byte{1}, size) // not the page of zeros
			b.SetBytes(int64(size))
			if err := e.link.Write(link.Write{Ref: ref, Data: data}); err != nil { // maps the segment
				b.Fatal(err)
			}
			off := 0
			defer cpu(b)()
			for b.Loop() {
				if err := e.link.Write(link.Write{Ref: ref, Offset: uint32(off), Data: data}); err != nil {
					b.Fatal(err)
				}
				if off += size; off > benchWindow-size {
					off = 0
				}
			}
		})
	}
}

// BenchmarkCopy is what BenchmarkWrite is measured by: the same bytes into the same amount of mapped memory, and
// nothing told.
func BenchmarkCopy(b *testing.B) {
	for _, size := range []int{128, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			seg, err := shmem.Create("ringlet-t-copy", benchWindow, shmem.WithDir(testDir(b)))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = seg.Close() }()
			data, mem := bytes.Repeat([]byte{1}, size), seg.Bytes()
			b.SetBytes(int64(size))
			off := 0
			defer cpu(b)()
			for b.Loop() {
				copy(mem[off:], data)
				if off += size; off > benchWindow-size {
					off = 0
				}
			}
		})
	}
}

func BenchmarkWriteMany(b *testing.B) {
	e, _ := startChild(b, "sink", Config{Spin: 50 * time.Microsecond},
		func(e *end) { e.onPlaced = func(link.Placement) {} })
	var pieces []link.Piece
	data := make([]byte, 128)
	for _, r := range e.awaitRefs(b, 101)[:64] {
		pieces = append(pieces, link.Piece{Ref: r, Data: data})
	}
	if err := e.link.WriteMany(pieces, 1); err != nil { // maps the segment
		b.Fatal(err)
	}
	for b.Loop() {
		if err := e.link.WriteMany(pieces, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpieces/s")
}

// BenchmarkThereAndBack is a write of 128 bytes, seen by the peer, and its write of 128 bytes back, seen here.
func BenchmarkThereAndBack(b *testing.B) {
	for _, spin := range []time.Duration{0, 100 * time.Microsecond} {
		b.Run(fmt.Sprintf("spin=%v", spin), func(b *testing.B) {
			var last atomic.Uint64
			e, _ := startChild(b, "echo", Config{Spin: spin},
				func(e *end) { e.onPlaced = func(p link.Placement) { last.Store(p.Imm) } })
			if err := e.sendRefs(1, 128); err != nil {
				b.Fatal(err)
			}
			ref := e.awaitRefs(b, 1)[0]
			data := make([]byte, 128)
			var took []time.Duration
			for i := uint64(1); b.Loop(); i++ {
				begin := time.Now()
				if err := e.link.Write(link.Write{Ref: ref, Data: data, Imm: i}); err != nil {
					b.Fatal(err)
				}
				for last.Load() != i {
					yield()
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}
