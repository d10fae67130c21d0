package frontend_test

import (
	"testing"

	"ringlet/source/live"
	"ringlet/testkit/must"
)

// BenchmarkRing is a producer in another process, and a feed that copies what it gets, as a readout unit does. An
// operation is a fragment of 1 KiB.
func BenchmarkRing(b *testing.B) {
	for language, program := range producers(b) {
		b.Run(language, func(b *testing.B) {
			f, path := openFeed(b, "")
			p := start(b, program(), path, "0", "1024")
			p.line(b)
			dst, to := make([]live.Fragment, 256), make([]byte, 1<<20)
			ctx := within(b)
			b.SetBytes(1024)
			b.ReportAllocs()
			b.ResetTimer()
			for remaining := b.N; remaining > 0; {
				n, err := f.Next(ctx, dst[:min(256, remaining)])
				must.OK(b, err)
				at := 0
				for _, g := range dst[:n] {
					at += copy(to[at:], g.Data)
				}
				f.ReleaseFragments(n)
				remaining -= n
			}
		})
	}
}

// BenchmarkCopy is the bound: the same bytes copied once, from 16 MiB as the ring has.
func BenchmarkCopy(b *testing.B) {
	from, to := make([]byte, 16<<20), make([]byte, 1<<20)
	b.SetBytes(1024)
	at := 0
	for b.Loop() {
		copy(to[at%len(to):], from[at:at+1024])
		at = (at + 1024) % len(from)
	}
}
