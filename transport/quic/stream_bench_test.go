package quic

import (
	"io"
	"testing"
)

// BenchmarkBareStream is what quic-go's streams carry by themselves, written and read 1 MiB at a time: the reference of
// the carrier stream.
func BenchmarkBareStream(b *testing.B) {
	x, y := listen(b, configOf(issue(b, "a"))), listen(b, configOf(issue(b, "b")))
	cx, cy := connectPair(b, x, y, "b")
	out, err := cx.(*conn).qc.OpenUniStream()
	if err != nil {
		b.Fatal(err)
	}
	data := pattern(1)
	b.SetBytes(bulk)
	go func() {
		for range b.N {
			if _, err := out.Write(data); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	in, err := cy.(*conn).qc.AcceptUniStream(within(b))
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		if _, err := io.ReadFull(in, data); err != nil {
			b.Fatal(err)
		}
	}
}
